"""Requests and responses of the API, as its OpenAPI description shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal["queued", "running", "done", "failed", "stopped"]
ENDED: tuple[State, ...] = ("done", "failed", "stopped")

MOST_LANES = 400
MOST_PIXELS = 8000

Moment = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]
Key = Annotated[str, Field(min_length=1, max_length=60)]
Words = Annotated[str, Field(max_length=500)]
ScenarioText = Annotated[str, Field(max_length=2 << 20, description="YAML.")]
FileName = Annotated[str, Field(min_length=1, max_length=400, description="Relative to the folder, `/` between parts.")]


class ApiBody(BaseModel):
    """Base: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class TextFault(ApiBody):
    """One thing that is wrong with a scenario, and where."""

    message: str = Field(description="What is wrong.")
    line: int | None = Field(default=None, description="Counted from 1.")
    column: int | None = Field(default=None, description="Counted from 1.")
    key: str | None = Field(default=None, description="Dotted key.")
    found: str | None = Field(default=None, description="What stands there.")
    allowed: str | None = Field(default=None, description="What may stand there.")
    hint: str | None = Field(default=None, description="How to fix it.")


class DraftText(ApiBody):
    """A scenario that is being written."""

    text: ScenarioText
    file: FileName = "scenario.yaml"


class Checked(ApiBody):
    """Faults and notes of a draft."""

    faults: list[TextFault] = Field(description="Empty where it can be run.")
    name: str | None = Field(default=None, description="Of the scenario.")
    kind: str | None = Field(default=None, description="Of its work: training, serving and others.")
    engine: str | None = Field(default=None, description="That would run it.")


class DecisionFigure(ApiBody):
    """A key figure."""

    name: str = Field(description="Of what.")
    value: str = Field(description="With its unit.")
    band: str = Field(description="Its range, and of what; empty if it is not known.")


class Estimated(ApiBody):
    """A rough answer: the first variant in closed form, without remedies."""

    faults: list[TextFault] = Field(description="Empty where there is an answer.")
    result: dict[str, Any] | None = Field(default=None, description="As `result.json`, format railyard/result-1.")
    figures: list[DecisionFigure] = Field(default_factory=list, description="In place of a result: key figures.")
    took_s: float = Field(description="Seconds that it took.")


class InputSpec(ApiBody):
    """Files that a verb reads in addition to a scenario."""

    name: str = Field(description="Under `files` of a job.")
    title: str = Field(description="For people.")
    about: str = Field(description="What it is.")
    takes: Literal["file", "folder", "either"] = Field(description="Whether it is a file or a folder.")
    needed: bool = Field(description="Whether there is nothing to do without it.")
    several: bool = Field(description="Whether there may be more than one.")


class OptionSpec(ApiBody):
    """A choice."""

    name: str = Field(description="Under `options` of a job.")
    title: str = Field(description="For people.")
    about: str = Field(description="What it decides.")
    default: str = Field(description="Default value.")
    allowed: list[str] = Field(description="The choices there are; empty: any text.")


class VerbSpec(ApiBody):
    """Something that can be asked for, and what it is given."""

    name: str = Field(description="Under `verb` of a job.")
    title: str = Field(description="For people.")
    about: str = Field(description="What it answers.")
    scenario: bool = Field(description="Whether it takes the text of a scenario.")
    engine: bool = Field(description="Whether it takes an engine.")
    vary: bool = Field(description="Whether it takes what varies.")
    inputs: list[InputSpec] = Field(description="Additional input files.")
    options: list[OptionSpec] = Field(description="Choices.")


class InputRow(ApiBody):
    """Something below the folder that can be given to a verb."""

    file: FileName
    folder: bool = Field(description="Whether it is a folder: of a run, or of uploads.")
    bytes: int = Field(description="Size of a file; 0 of a folder.")
    changed: float = Field(description="Seconds since 1970.")


class NewJob(ApiBody):
    """Something that is asked for: a run where no verb is named."""

    verb: Annotated[str, Field(max_length=60)] = Field(default="run", description="One of `/verbs`.")
    text: ScenarioText = ""
    file: FileName = "scenario.yaml"
    engine: Annotated[str, Field(max_length=60)] | None = Field(default=None, description="In place of the scenario's.")
    vary: list[Words] = Field(default_factory=list, max_length=20, description="Each `key=a,b,c`.")
    files: Annotated[dict[Key, list[FileName]], Field(max_length=20)] = Field(
        default_factory=dict, description="What is given for each input of the verb, below the folder."
    )
    options: Annotated[dict[Key, Words], Field(max_length=20)] = Field(
        default_factory=dict, description="What is chosen, by option."
    )


class Outcome(ApiBody):
    """Result of a job, and how to open it."""

    view: Literal["run", "answer", "page"] = Field(description="A run, an answer of another command, a page.")
    name: str = Field(description="Of its folder in runs; of a page its file.")


class QueuedJob(ApiBody):
    """Something that was asked for."""

    id: str = Field(description="Names it from now on.")
    verb: str = Field(description="What is done.")
    file: str = Field(description="The scenario's file, or the first that the verb reads.")
    engine: str | None = Field(default=None, description="In place of the scenario's.")
    vary: list[str] = Field(description="Each `key=a,b,c`.")
    files: dict[str, list[str]] = Field(description="What was given for each input.")
    options: dict[str, str] = Field(description="What was chosen.")
    state: State = Field(description="Where it stands.")
    created: float = Field(description="Seconds since 1970 (Unix time).")
    started: float | None = Field(default=None, description="Seconds since 1970.")
    ended: float | None = Field(default=None, description="Seconds since 1970.")
    stage: str = Field(default="", description="What is being done.")
    share: float = Field(default=0.0, description="Done, from 0 to 1.")
    eta_s: float | None = Field(default=None, description="Seconds to go, guessed from the share.")
    outcome: Outcome | None = Field(
        default=None, description="What it gave, once it is there; where it was stopped, what was found by then."
    )
    faults: list[TextFault] = Field(default_factory=list, description="Why it failed.")
    change: int = Field(description="Grows with every change of any job.")


class RunRow(ApiBody):
    """A run in a list of runs."""

    run: str = Field(description="Name of its folder.")
    name: str = Field(description="Of the scenario.")
    engine: str = Field(description="That ran it.")
    created: str = Field(description="When, ISO 8601 in UTC.")
    version: str = Field(description="Of Railyard.")
    kind: str = Field(description="Of its work.")
    columns: list[str] = Field(description="Of the comparison.")
    rows: list[list[str]] = Field(description="One row per variant, in words and with units.")
    sentence: str = Field(description="What the comparison says.")


class DecisionPart(ApiBody):
    """Part of a bar."""

    part: int = Field(description="Number of its cause in the chart.")
    length: float = Field(description="From 0 to 1, the length of the longest bar.")
    amount: str = Field(description="In words.")


class DecisionBar(ApiBody):
    """Losses of a variant."""

    name: str = Field(description="Of the variant.")
    total: str = Field(description="In words.")
    parts: list[DecisionPart] = Field(description="From left to right.")


class DecisionChart(ApiBody):
    """Losses of all variants by cause."""

    title: str = Field(description="What a bar shows.")
    parts: list[str] = Field(description="Causes, the largest first.")
    bars: list[DecisionBar] = Field(description="A bar for each variant.")
    bound: float | None = Field(description="Length that no product goes below; null: unknown.")
    bound_name: str = Field(description="What the bound is of.")


class DecisionList(ApiBody):
    """Sentences under a title."""

    title: str = Field(description="Of the list.")
    lines: list[str] = Field(description="A sentence each.")


class Decision(ApiBody):
    """First screen of a result or an answer."""

    verdict: str = Field(description="The answer in one sentence.")
    why: list[str] = Field(description="Reasons, a sentence each, without those that the lists have.")
    figures: list[DecisionFigure] = Field(description="The most important ones; none: not known.")
    chart: DecisionChart | None = Field(description="Losses by cause; null: the view has its own.")
    lists: list[DecisionList] = Field(description="What to do, what would change this, confidence, assumptions.")


class AnswerRow(ApiBody):
    """Stored answer of a command other than `run`."""

    answer: str = Field(description="Name of its folder.")
    kind: str = Field(description="plan, diagnosis, tune, audit, check, placement or scale.")
    name: str = Field(description="Of what it is about.")
    sentence: str = Field(description="What it says.")
    changed: float = Field(description="Seconds since 1970.")
    hall: bool = Field(description="Whether its parts can be shown in the hall of its cluster.")


class Mark(ApiBody):
    """Place in the hall of a finding or a suspected part."""

    kind: str = Field(description="As the answer has it.")
    name: str = Field(description="The part, or both ends.")
    usd_per_month: float | None = Field(default=None, description="What it costs; null where no price is known.")
    cables: list[int] = Field(description="Rows of the hall's cables.")
    devices: list[int] = Field(description="Numbers of the hall's devices.")


class Marks(ApiBody):
    """All findings of an answer in the hall."""

    rows: list[Mark] = Field(description="In the order of the answer.")


class PageRow(ApiBody):
    """A page that a command wrote: of a plan, a deployment, an acceptance."""

    file: str = Field(description="Relative to the folder.")
    title: str = Field(description="As it calls itself.")
    changed: float = Field(description="Seconds since 1970.")


class OutputRow(ApiBody):
    """A file that a verb wrote."""

    name: str = Field(description="Relative to the folder of the run or the deployment, `/` between parts.")
    bytes: int = Field(description="Size.")
    changed: float = Field(description="Seconds since 1970.")


class FileRow(ApiBody):
    """A scenario file."""

    file: FileName
    bytes: int = Field(description="Size.")
    changed: float = Field(description="Seconds since 1970.")


class ViewTitle(ApiBody):
    """A view of a run."""

    name: str = Field(description="Its name in the API.")
    title: str = Field(description="What the page calls it.")


class FileText(ApiBody):
    """A scenario file with its text."""

    file: FileName
    text: ScenarioText
    version: str = Field(description="Fingerprint; sent back when the file is replaced.")


class FileToSave(ApiBody):
    """A file that is to be written."""

    text: ScenarioText
    version: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Fingerprint of what is replaced; None for a new file."
    )


class Login(ApiBody):
    """A token, to be turned into a cookie."""

    token: Annotated[str, Field(max_length=400, description="As in the server's file.")]


class Person(ApiBody):
    """The person of a request."""

    name: str = Field(description="`local` where no token is needed.")
    tokens: bool = Field(description="Whether this server wants tokens.")
    version: str = Field(description="Of Railyard.")


class Health(ApiBody):
    """Answer of a server that works."""

    ok: Literal[True] = Field(default=True, description="Always.")
    version: str = Field(description="Of Railyard.")
    running: int = Field(description="Jobs that run.")
    queued: int = Field(description="Jobs that wait.")


class Template(ApiBody):
    """A scenario to start from."""

    name: str = Field(description="Short.")
    about: str = Field(description="What it asks.")
    text: str = Field(description="YAML.")


class Lane(ApiBody):
    """A row of a timeline."""

    rank: int = Field(description="Whose.")
    name: str = Field(description="Of the stream.")


class Look(ApiBody):
    """Fields that slices of one look share."""

    phase: str = Field(description="forward, backward, ...")
    op: str = Field(description="The operation.")
    group: str = Field(description="Class of the communicator; empty for computation.")


class Strips(ApiBody):
    """A timeline before any of it is drawn."""

    lanes: list[Lane] = Field(description="From top to bottom.")
    looks: list[Look] = Field(description="A pixel names one by its number.")
    end_us: float = Field(description="When the last slice ends, microseconds.")
    slices: int = Field(description="How many there are.")


class Window(ApiBody):
    """Range of a timeline to draw."""

    from_us: Moment = Field(description="The left edge, microseconds.")
    to_us: Moment = Field(description="The right edge, microseconds.")
    variant: int = Field(default=0, ge=0, lt=1000, description="Its number in the result.")
    first: int = Field(default=0, ge=0, lt=1 << 31, description="The uppermost lane.")
    count: int = Field(default=100, ge=1, le=MOST_LANES, description="Lanes.")
    pixels: int = Field(default=1000, ge=1, le=MOST_PIXELS, description="Width.")


class RecordWindow(Window):
    """Range of a measured record to draw."""

    file: FileName


class RequestWindow(ApiBody):
    """Range of requests to draw."""

    variant: int = Field(default=0, ge=0, lt=1000, description="Its number in the result.")
    order: Literal["arrival", "ttft", "e2e"] = Field(default="arrival", description="By arrival, or the slowest first.")
    first: int = Field(default=0, ge=0, lt=1 << 31, description="So many are left out before.")
    count: int = Field(default=40, ge=1, le=MOST_LANES, description="Rows.")


class SliceSeen(ApiBody):
    """A slice under the pointer; all null where there is none."""

    look: int | None = Field(default=None, description="Number of its look.")
    start_us: float | None = Field(default=None, description="Microseconds.")
    end_us: float | None = Field(default=None, description="Microseconds.")
    bytes: int | None = Field(default=None, description="That it moved.")
    alone_us: float | None = Field(default=None, description="How long it takes with the network to itself.")
    latency_us: float | None = Field(default=None, description="The part of that which bandwidth does not shrink.")
    slowed_us: float | None = Field(default=None, description="Slowdown by overlapping communication.")


class Spread(ApiBody):
    """A figure at its low-cost, middle and high-cost value."""

    low: float = Field(description="The low end.")
    typical: float = Field(description="The middle.")
    high: float = Field(description="The high end.")


class KnownPrice(Spread):
    """An assumption as a run took it."""

    name: str = Field(description="As in `economics` of the catalogue.")


class VariantPrice(ApiBody):
    """A variant at the prices that were asked for."""

    name: str = Field(description="Of the variant.")
    cpmt: Spread = Field(description="USD per million tokens.")
    parts: dict[str, float] = Field(description="Typical USD per million tokens: capital, energy, space, operations.")
    tokens_per_s: float = Field(description="Goodput, of all accelerators together.")


class PriceTurn(ApiBody):
    """A price at which another variant costs the same as the cheapest."""

    name: str = Field(description="The other variant.")
    price: str = Field(description="Which price.")
    value: float = Field(description="Where both cost the same: a factor of today's price, or the value itself.")
    now: float = Field(description="Where it stands.")


class Repriced(ApiBody):
    """Runs at other prices."""

    factors: list[str] = Field(description="Prices that are moved by a factor.")
    prices: list[KnownPrice] = Field(description="Assumptions that are moved to a value.")
    variants: list[VariantPrice] = Field(description="In the order of the runs.")
    turns: list[PriceTurn] = Field(description="The nearest first.")


class RefusalBody(ApiBody):
    """Why a request was refused."""

    error: str = Field(description="In words.")
    faults: list[TextFault] = Field(default_factory=list, description="Where, if it is about a scenario.")
