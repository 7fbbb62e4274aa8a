"""The joined page, without a browser."""

import base64
import hashlib
import re

import numpy as np
import pytest

from extender.page.bundle import content_security_policy, document

DOCUMENT = document().decode()


@pytest.mark.parametrize(("tag", "directive"), [("script", "script-src"), ("style", "style-src")])
def test_the_policy_admits_what_the_document_holds_and_nothing_else(tag: str, directive: str) -> None:
    (text,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", DOCUMENT, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"{directive} 'sha256-{digest}';" in content_security_policy()


def test_the_document_asks_nothing_of_another_host() -> None:
    hosts = re.findall(r"https?://[^\s\"')]+", re.sub(r"^ *(/?\*|//).*$", "", DOCUMENT, flags=re.MULTILINE))
    assert set(hosts) <= {"http://www.w3.org/2000/svg"}  # a name, never fetched


SEEN_BY = {
    "all cones": np.eye(3),
    "no red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no green": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "no blue": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
"""Linear RGB as dichromats see it: Machado, Oliveira and Fernandes, 2009, doi:10.1109/TVCG.2009.113, severity 1."""


@pytest.mark.parametrize("eye", SEEN_BY)
def test_near_is_darker_than_far_for_every_eye(eye: str) -> None:
    """One scale for both themes, whose lightness (CIE L*) alone gives the order."""
    (scale,) = re.findall(r"NEAR_TO_FAR = \[(.*?)\n\];", DOCUMENT, re.DOTALL)
    srgb = np.array([[int(part) for part in row] for row in re.findall(r"\[(\d+), (\d+), (\d+)\]", scale)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    luminance = np.clip(linear @ SEEN_BY[eye].T, 0, 1) @ [0.2126, 0.7152, 0.0722]
    lightness = 116 * np.cbrt(luminance) - 16
    assert np.diff(lightness).min() > 5
