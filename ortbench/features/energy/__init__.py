"""`--measure-energy`: what an inference draws, by the energy counter of its device."""
