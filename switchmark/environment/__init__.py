"""Where applications live: one module an environment."""
