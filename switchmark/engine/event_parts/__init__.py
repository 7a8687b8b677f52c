"""The parts of the engine's events, by what they tell of a trial.

`events.schema.json` says what every field means, and in which unit. A field that the schema lets a
line leave out is None here when it was left out.
"""
