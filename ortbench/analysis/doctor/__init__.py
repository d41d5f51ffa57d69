"""What facts about a machine mean for whoever measures on it; pure."""
