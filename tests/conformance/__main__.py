"""`python -m tests.conformance`: how many scenarios pass, by folder."""

import sys
from collections import Counter

from tests.conformance import suite


def main() -> int:
    """Run all, print a table; the exit status says whether the list of failures is right."""
    passed: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    total: Counter[str] = Counter()
    surprises = []
    for scenario in suite.scenarios():
        total[scenario.folder] += 1
        problems = suite.run(scenario)
        if not problems:
            passed[scenario.folder] += 1
            idle[scenario.folder] += scenario.expects_nothing
        if bool(problems) != (scenario.path in suite.expected_failures()):
            surprises.append(f"{scenario.path}: {'; '.join(problems) or 'passes, but is listed'}")
    lines = [f"{'folder':24}{'passed':>8}{'of':>6}{'nothing to do':>16}"]
    lines += [f"{each:24}{passed[each]:8}{total[each]:6}{idle[each]:16}" for each in total]
    nothing = sum(scenario.expects_nothing for scenario in suite.scenarios())
    lines.append(f"{'all':24}{passed.total():8}{total.total():6}{idle.total():9} of {nothing:3}")
    sys.stdout.write("\n".join([*lines, *surprises, ""]))
    return bool(surprises)


if __name__ == "__main__":
    sys.exit(main())
