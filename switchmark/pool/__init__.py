"""Many testbeds: campaigns cut into blocks, a lease for each, agents that measure them."""
