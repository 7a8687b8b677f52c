"""Privileges of started programs: the sandbox, and its Landlock launcher."""
