"""JUnit XML: what passed and what did not, as CI systems list it."""
