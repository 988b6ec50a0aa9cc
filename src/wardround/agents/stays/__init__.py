"""The roles of a stay that is played bundle by bundle (TRACE, section 3.3), in code or by the model."""
