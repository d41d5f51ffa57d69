"""A stand-in for Nsight Systems: its command line, and exports in the form that its documentation gives."""
