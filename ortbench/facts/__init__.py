"""What a result says, as data: rules that are pure functions from a result to facts, and one table with one sentence for each."""
