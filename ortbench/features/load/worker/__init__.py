"""A load: clients that each have a mode object of their own, in threads of this worker."""
