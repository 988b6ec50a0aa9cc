"""The methods, a file each under its paper's own word: compositions over the loop, listed by their ``METHODS``."""
