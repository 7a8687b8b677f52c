"""The scenario `v2p`: from the environment to a tester: traffic that a host sends."""

from switchmark.model.topology import NodePlace

PLACES = (NodePlace.ENVIRONMENT, NodePlace.WIRE)
