"""Fail a run that skipped a test: what was not run shows nothing."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a passing run with skipped tests into a failing one."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("FAILED: tests were skipped; see their reasons", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
