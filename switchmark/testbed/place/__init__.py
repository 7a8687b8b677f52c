"""The facilities and limits of the place in which the bench runs, found by trying them."""
