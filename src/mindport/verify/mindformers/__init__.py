"""The real MindFormers on a CPU: its own training graphs with our weights, where it is installed."""
