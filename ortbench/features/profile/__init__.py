"""`ortbench profile`: a short session for a timeline, recorded by Nsight Systems where it is installed."""
