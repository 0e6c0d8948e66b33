"""In which order the arms take their turns, so that drift and the arm before favour none of them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def balanced_orders(arms: Sequence[str]) -> list[list[str]]:
    """Return the orders to take round after round, over and over: 2k orders of k arms.

    Each order is followed by its mirror image (ABBA for two arms), so that a steady drift within two such rounds
    cancels in every pair of arms. Over the whole cycle each arm stands equally often at each place, and each follows
    each other one equally often: a pair of Williams squares, E. J. Williams, "Experimental Designs Balanced for the
    Estimation of Residual Effects of Treatments", Australian Journal of Scientific Research A 2, 1949. For three arms
    that is all six orders.
    """
    # Williams' first row 0, 1, k-1, 2, k-2, ...: neighbours differ by every amount once.
    row = [0]
    others = deque(range(1, len(arms)))
    while others:
        row.append(others.popleft())
        if others:
            row.append(others.pop())
    orders = []
    for shift in range(len(arms)):
        order = [arms[(place + shift) % len(arms)] for place in row]
        orders += [order, order[::-1]]
    return orders
