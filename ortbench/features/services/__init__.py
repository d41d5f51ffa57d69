"""What services that keep a history read: Bencher, github-action-benchmark, and the summary of a job on GitHub."""
