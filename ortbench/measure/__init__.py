"""The parent's side of a measurement: workers, schedule, machine, samples kept."""
