"""The files of a results folder beside its records: the start of the run, and its resumptions.

Such a folder may come from an untrusted source, so all parts that readers use are checked here."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from switchmark.model.campaign import Published
from switchmark.model.choices import MAX_REPETITIONS
from switchmark.model.finding import CampaignFinding
from switchmark.model.value import FreeForm, UtcTime

LONGEST_BUDGET_S = 1e9  # 30 years; limits the number of planned interim analyses


class RunDefinition(BaseModel):
    """The parts of a campaign's definition that readers of results use; an old definition may lack
    any of them."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    repetitions: int = Field(default=1, ge=1, le=MAX_REPETITIONS)
    until_ci: float | None = Field(default=None, gt=0, lt=1)
    max_repetitions: int = Field(default=1, ge=1, le=MAX_REPETITIONS)
    prove: float | None = Field(default=None, gt=0, lt=1)
    budget_s: float | None = Field(default=None, gt=0, le=LONGEST_BUDGET_S)
    confidence: float | None = Field(default=None, gt=0.5, lt=1)
    published: tuple[Published, ...] = ()
    findings: tuple[CampaignFinding, ...] = ()


class RunSettings(BaseModel):
    """The settings of a run that are used again later."""

    model_config = ConfigDict(frozen=True)

    set: tuple[str, ...] = ()
    testbeds: tuple[str, ...] = ()  # testbeds of a pool that decide separately


class RunInfo(BaseModel):
    """The content of run.json: the campaign, its settings and the host."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    run_id: str
    campaign: str
    campaign_sha256: str  # SHA-256 of campaign.yaml
    started_at: UtcTime
    switchmark_version: str
    definition: FreeForm  # the campaign as parsed, with `published` figures if it has any
    settings: FreeForm
    host: FreeForm  # facts of the machine at the start

    @cached_property
    def parsed_definition(self) -> RunDefinition:
        """The part of the definition that readers need."""
        return RunDefinition.model_validate(self.definition)

    @cached_property
    def parsed_settings(self) -> RunSettings:
        """The part of the settings that `--resume` needs."""
        return RunSettings.model_validate(self.settings)

    @model_validator(mode="after")
    def _check_parsed_parts(self) -> Self:
        """Refuse an invalid file when it is read, not when its parts are used."""
        assert self.parsed_definition and self.parsed_settings
        return self


class Resumption(BaseModel):
    """The content of resumed-<n>.json: the continuation of a run, perhaps after changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resumed_at: UtcTime
    switchmark_version: str
    campaign_sha256: str
    campaign_changed: bool
    settings: FreeForm
    host: FreeForm

    @cached_property
    def parsed_settings(self) -> RunSettings:
        """The part of the settings that readers need."""
        return RunSettings.model_validate(self.settings)

    @model_validator(mode="after")
    def _check_parsed_parts(self) -> Self:
        """Refuse an invalid file when it is read, not when its parts are used."""
        assert self.parsed_settings
        return self
