"""`--why` of `ortbench compare` and `gate`: which nodes make the difference of two results."""
