"""What the program costs, beside the floor or the alternative, measured in the same run."""
