"""Prices and conditions around the cluster, if the scenario knows better than the catalogue."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from railyard.catalog import Range
from railyard.catalog.grids import grid
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema.quantity import ENERGY_PRICE, SHARE, SPACE_PRICE, SPAN, YEARS, limits
from railyard.work.scenario import quantity
from railyard.work.scenario.section import Section


class _Band(Section):
    """A range; `low <= typical <= high`."""

    low: float
    typical: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> "_Band":
        if not self.low <= self.typical <= self.high:
            raise PydanticCustomError("order", "low, typical and high are not in order")
        return self


def _banded(kind: Any, title: str) -> Any:
    """A value, or a range of such values."""
    band = create_model(
        f"{title}Range", __base__=_Band, __doc__=_Band.__doc__, low=(kind, ...), typical=(kind, ...), high=(kind, ...)
    )
    return Annotated[
        Annotated[kind, Tag("value")] | Annotated[band, Tag("range")],
        Discriminator(lambda value: "range" if isinstance(value, dict | Section) else "value"),
    ]


_PUE = limits(1.0, 10.0, usual=(1.02, 2.0), source="Uptime Institute, annual survey 2024: mean 1.56; the best 1.04")
_LIFE = YEARS.within(
    "1 months", "100 years", usual=("2 years", "15 years"), source="hyperscalers' annual reports: 4 to 6 years"
)
_MTBF = SPAN.within(
    "1 s",
    "100_000_000 h",
    usual=("1000 h", "10_000_000 h"),
    source="Llama 3, arXiv 2407.21783: 50,700 h an accelerator",
)
_ELECTRICITY = ENERGY_PRICE.within(
    "$0/kWh", "$10/kWh", usual=("$0.01/kWh", "$0.6/kWh"), source="industrial prices of countries, IEA 2024"
)
_SPACE = SPACE_PRICE.within(
    "$0/kW-month", "$10000/kW-month", usual=("$20/kW-month", "$600/kW-month"), source="CBRE 2024: mean $184/kW-month"
)

if TYPE_CHECKING:
    _Share = float | _Band
    _Ratio = float | _Band
    _Years = float | _Band
    _Mtbf = float | _Band
    _Span = float | _Band
    _Energy = float | _Band
    _Space = float | _Band
else:
    _Share = _banded(Annotated[quantity.Ratio, SHARE], "Share")
    _Ratio = _banded(Annotated[quantity.Ratio, _PUE], "Ratio")
    _Years = _banded(Annotated[quantity.Years, _LIFE], "Years")
    _Mtbf = _banded(Annotated[quantity.Span, _MTBF], "Mtbf")
    _Span = _banded(quantity.Span, "Span")
    _Energy = _banded(Annotated[quantity.EnergyPrice, _ELECTRICITY], "EnergyPrice")
    _Space = _banded(Annotated[quantity.SpacePrice, _SPACE], "SpacePrice")


def _known_grid(name: str) -> str:
    try:
        grid(name, "grid")
    except InputError as error:
        (problem,) = error.problems
        context = {"allowed": problem.allowed, "hint": problem.hint}
        raise PydanticCustomError("grid", "no figure for this grid", context) from None
    return name


_Grid = Annotated[quantity.Text, AfterValidator(_known_grid)]


class PlaceSection(Section):
    """A place where the cluster may stand. What is left out is as under `economics`."""

    electricity: _Energy | None = Field(default=None, description="Metered energy.", examples=["$0.05/kWh"])
    pue: _Ratio | None = Field(default=None, description="Facility power over IT power.", examples=[1.1])
    space: _Space | None = Field(default=None, description="Provisioned space and power, without energy.")
    grid: _Grid | None = Field(
        default=None, description="Country of its electricity, for carbon.", examples=["Iceland"]
    )


class EconomicsSection(Section):
    """Prices and rates; each a value or `{low, typical, high}`, and the catalogue's range where left out."""

    cost_of_capital: _Share | None = Field(default=None, description="Per year.", examples=["10 %"])
    life: _Years | None = Field(
        default=None, description="Years over which the capital is recovered.", examples=["4 years"]
    )
    electricity: _Energy | None = Field(default=None, description="Metered energy.", examples=["$0.08/kWh"])
    pue: _Ratio | None = Field(default=None, description="Facility power over IT power.", examples=[1.25])
    space: _Space | None = Field(
        default=None,
        description="Provisioned space and power by IT nameplate power, without energy.",
        examples=["$180/kW-month"],
    )
    operations: _Share | None = Field(
        default=None, description="Staff, support and spares a year, as a share of capital cost."
    )
    installation: _Share | None = Field(default=None, description="Share of hardware cost.")
    mtbf: _Mtbf | None = Field(
        default=None,
        description="Mean time between interruptions caused by one accelerator and its share of all else.",
        examples=["50000 h"],
    )
    restart: _Span | None = Field(
        default=None, description="From an interruption to the first step after it.", examples=["15 min"]
    )
    grid: _Grid | None = Field(
        default=None,
        description="Country whose electricity the cluster takes, or its code of three letters: for carbon in plans.",
        examples=["France"],
    )
    sites: dict[quantity.Text, PlaceSection] | None = Field(
        default=None,
        description="Places where it may stand, by name.",
        examples=[{"north": {"electricity": "$0.05/kWh", "pue": 1.1, "grid": "Norway"}}],
    )
    site: quantity.Text | None = Field(
        default=None, description="That of `sites` where it stands: what is given there holds."
    )

    @field_validator("site")
    @classmethod
    def _placed(cls, site: str | None, info: ValidationInfo) -> str | None:
        sites = info.data.get("sites", {site: None}) or {}  # sites that are wrong say so themselves
        if site is not None and site not in sites:
            allowed = ", ".join(sites) or "a name under `economics.sites`"
            context = {"site": site, "allowed": allowed, "hint": did_you_mean(site, sites)}
            raise PydanticCustomError("site", "there is no site `{site}`", context)
        return site

    def at_site(self, key: str) -> Any:
        """Value of a key at a site, if it has one of its own."""
        place = getattr((self.sites or {}).get(self.site or ""), key, None)
        return getattr(self, key) if place is None else place

    def given(self) -> dict[str, Range]:
        """The scenario's own values, under the names of the economics room."""
        hours = 1 / 3600.0
        names = {
            "cost_of_capital": ("cost_of_capital", 1.0),
            "life": ("life_years", 1.0),
            "electricity": ("electricity_usd_per_kwh", 1.0),
            "pue": ("pue", 1.0),
            "space": ("space_usd_per_kw_month", 1.0),
            "operations": ("operations", 1.0),
            "installation": ("installation", 1.0),
            "mtbf": ("mtbf_h", hours),
            "restart": ("restart_s", 1.0),
        }
        values = {attribute: (self.at_site(key), scale) for key, (attribute, scale) in names.items()}
        return {
            attribute: _range(value).scaled(scale) for attribute, (value, scale) in values.items() if value is not None
        }


def _range(value: Any) -> Range:
    return Range(value.low, value.typical, value.high) if isinstance(value, _Band) else Range(value, value, value)
