"""Selection of the decoding strategy from the options of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from seqloom.errors import SeqloomError, unknown

if TYPE_CHECKING:
    from seqloom.decode.strategies import Strategy

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical", "seed")
_FLAGS = ("beam", "nbest", "sample", "mbr", "samples", "exact", "expand", *_SAMPLING)


def choose_strategy(
    parameters: Mapping[str, Any], *, named: str | None, options: Mapping[str, Any], search: Mapping[str, Any]
) -> Strategy:
    """Return the selected strategy; contradictory options are an error.

    `parameters` are those of the command by name, None or False if not given. `named` is the value of
    --strategy, `options` are its options, and `search` are the given search options.
    """
    flags = {name: parameters.get(name) for name in _FLAGS}
    given = {name: value for name, value in flags.items() if value is not None and value is not False}
    if named is not None:
        strategy = _named(named, given, options)
    elif options:
        raise SeqloomError(f"strategy.{next(iter(options))} needs --strategy.", "add --strategy NAME")
    else:
        strategy = _from_flags(given)
    strategy.check_options(search)
    return strategy


def _named(name: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> Strategy:
    from seqloom.decode.strategies import make_strategy

    if given:
        flag = next(iter(given)).replace("_", "-")
        raise SeqloomError(
            f"--{flag} and --strategy {name} exclude each other.", f"use --set strategy.{next(iter(given))}=..."
        )
    return make_strategy(name, options)


def _exact(given: Mapping[str, Any]) -> Strategy:
    """Return the exact search that these flags describe."""
    from seqloom.decode.strategies import ExactSearch

    if "exact" not in given:
        raise SeqloomError(f"--expand {given['expand']} needs --exact.", "add --exact")
    if others := given.keys() - {"exact", "expand", "beam"}:
        flag = sorted(others)[0].replace("_", "-")
        raise SeqloomError(f"--{flag} and --exact exclude each other.", "leave one of them out")
    options = {name: given[name] for name in ("beam", "expand") if name in given}
    return ExactSearch.checked(options, "strategy")


def _from_flags(given: Mapping[str, Any]) -> Strategy:
    from seqloom.decode.mbr import UtilityName
    from seqloom.decode.strategies import BeamSearch, MinimumBayesRisk, Sampling

    if "exact" in given or "expand" in given:
        return _exact(given)
    beam, mbr = given.get("beam"), given.get("mbr")
    if mbr is not None and mbr not in get_args(UtilityName):
        raise unknown("utility", mbr, get_args(UtilityName))
    sampling = {name: given[name] for name in _SAMPLING if name in given}
    if "samples" in given and mbr is None:
        raise SeqloomError(
            f"--samples {given['samples']} needs --mbr.", "for several samples per line: --sample --nbest N"
        )
    if "sample" in given and beam is not None:
        raise SeqloomError(f"--beam {beam} and --sample exclude each other.", "leave one of them out")
    searches = beam is not None if mbr else "sample" not in given
    if searches and (unused := [name for name in (*sampling, "samples") if name in given]):
        flag = unused[0].replace("_", "-")
        raise SeqloomError(
            f"--{flag} has no effect on a beam search.", "leave --beam out" if mbr else "add --sample"
        )
    if mbr is not None:
        options = {
            "utility": mbr,
            **{name: given[name] for name in ("beam", "nbest", "samples") if name in given},
        }
        return MinimumBayesRisk.checked({**sampling, **options}, "strategy")
    if searches:
        return BeamSearch.checked({"beam": beam, "nbest": given.get("nbest")}, "search")
    return Sampling.checked({**sampling, "samples": given.get("nbest", 1)}, "sampling")
