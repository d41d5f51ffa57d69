"""Why one result is slower than another: which nodes differ, and what that takes."""
