"""How a drill is shown."""

from railyard_drill.kind import DrillVariant

from railyard.work.study.presentation import Presentation, ResultTable, Sheet, presentations


def sheets(result):
    rows = [(one.name, f"{one.drill.seconds:g} s", f"{one.drill.each_s:g} s") for one in result.of(DrillVariant)]
    return [Sheet(("variant", "all", "each"), rows)]


def verdict(result):
    return f"The last one has it after {result.of(DrillVariant)[0].drill.seconds:g} s."


def card(result, _report):
    return verdict(result)


TABLES = {"variants": ResultTable("one row a variant", lambda one: [one.drill.plain()])}
presentations.add("drill", Presentation(verdict, sheets, lambda _result: [], card, tables=TABLES))
