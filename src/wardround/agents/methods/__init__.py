"""The methods, a file each under its paper's own word: compositions over the loop, and the parts only they have."""
