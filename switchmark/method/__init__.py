"""Methods of many trials: one file for each method, which needs only a measurer."""
