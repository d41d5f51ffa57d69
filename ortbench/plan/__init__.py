"""What a command is asked to do: options, how they are read, and the frozen plans that they make."""
