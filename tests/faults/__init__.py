"""The generated fault matrix: fault x phase x switch x environment, drawn by a seed
(`tools/faults`)."""
