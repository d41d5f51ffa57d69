"""What there is to say of a result, from the result alone."""
