"""The family ``trace``: a stay is one sample of many steps; after every bundle it is asked what is done next."""
