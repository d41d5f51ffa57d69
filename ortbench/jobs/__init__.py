"""What each command does, a file each: from a plan to what is written and shown."""
