"""Progress on a terminal: one line beside the spinner."""

from __future__ import annotations

from reaper.cli import output


def test_a_line_beside_the_spinner_never_wraps():
    for width in (10, 40, 80):
        line = output.fit_one_line("12 of 34: 123456789012 us-east-1:\nsagemaker-inference-component: 5 seen", width)
        assert line.cell_len <= width - 3
        assert "\n" not in line.plain
    assert output.fit_one_line("12 of 34: [b]x", 80).plain == "12 of 34: [b]x"
