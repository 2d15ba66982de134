from tests.collectors.logs.reference import PAGE, page


def test_the_page_of_log_codes_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.collectors.logs.reference"
