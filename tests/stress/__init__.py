"""Scripts that run tests under conditions that one machine does not have by itself, or make something fail."""
