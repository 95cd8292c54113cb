"""What every feature stands on: ports, the loop of a change, and operations with deadlines and permits."""
