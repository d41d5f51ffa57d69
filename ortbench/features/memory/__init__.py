"""`--measure-memory`: what each mode takes of device and host memory, alone in a worker of its own."""
