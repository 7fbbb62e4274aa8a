"""A clock in a test's hand."""


class Clock:
    """Stands at `now`, in seconds, until the test moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now
