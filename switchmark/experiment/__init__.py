"""A campaign under way: which trial comes next, what is kept, when it is enough."""
