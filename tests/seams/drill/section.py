"""What the scenario says below `workload.drill`."""

from pydantic import Field

from railyard.work.scenario.quantity import Size
from railyard.work.scenario.section import Section, WorkKey, works


class DrillSection(Section):
    """A file for everybody."""

    size: Size = Field(description="Of the file.", examples=["1 GB"])


works.add("drill", WorkKey(DrillSection, "A file that every accelerator gets in turn."))
