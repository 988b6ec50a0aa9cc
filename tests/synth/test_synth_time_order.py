"""Time: nothing before arrival, nothing charted after the end, orders before what they order, results after draws."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from synth_rows import SEED, Reader, Row

from wardround.synth.catalog import load_catalog
from wardround.synth.person import HOUR, Numbers, draw_subject
from wardround.synth.planning import plan_encounter


def _stays(rows: Reader) -> dict[str, Row]:
    return {row["hadm_id"]: row for row in rows("admissions")}


def _arrival(stay: Row) -> str:
    return stay["edregtime"] or stay["admittime"]


def test_admissions_are_in_order_and_do_not_overlap(rows: Reader) -> None:
    by_subject: dict[str, list[Row]] = defaultdict(list)
    for stay in rows("admissions"):
        assert _arrival(stay) <= stay["admittime"] < stay["dischtime"]
        by_subject[stay["subject_id"]].append(stay)
    for stays in by_subject.values():
        for one, two in pairwise(stays):
            assert one["dischtime"] < _arrival(two)


def test_death_ends_a_life(rows: Reader) -> None:
    died = {row["subject_id"]: row["dod"] for row in rows("patients") if row["dod"]}
    assert died
    for stay in rows("admissions"):
        assert (
            (stay["hospital_expire_flag"] == "1") == bool(stay["deathtime"]) == (stay["discharge_location"] == "DIED")
        )
        if stay["deathtime"]:
            assert died[stay["subject_id"]] == stay["deathtime"][:10]
        if stay["subject_id"] in died:
            assert stay["admittime"][:10] <= died[stay["subject_id"]]
    for row in rows("omr"):
        assert row["chartdate"] <= died.get(row["subject_id"], "9999")


def test_transfers_are_a_chain_from_arrival_to_discharge(rows: Reader) -> None:
    chains: dict[str, list[Row]] = defaultdict(list)
    for row in rows("transfers"):
        if row["hadm_id"]:
            chains[row["hadm_id"]].append(row)
    assert set(chains) == set(_stays(rows))
    for chain in chains.values():
        chain.sort(key=lambda row: row["intime"])
        assert all(one["outtime"] == two["intime"] for one, two in pairwise(chain))
        kinds = [row["eventtype"] for row in chain]
        assert kinds.count("admit") == 1
        assert kinds[-1] == "discharge"
        assert chain[-1]["outtime"] == chain[-1]["careunit"] == ""


def test_icu_stays_are_transfers(rows: Reader) -> None:
    places = {row["transfer_id"]: row for row in rows("transfers")}
    for stay in rows("icustays"):
        assert places[stay["stay_id"]]["careunit"] == stay["first_careunit"]
        assert places[stay["stay_id"]]["intime"] == stay["intime"] < stay["outtime"]


def test_laboratory_results_come_after_draws_within_the_stay(rows: Reader) -> None:
    stays, missing = _stays(rows), 0
    for row in rows("labevents"):
        if row["storetime"]:
            assert row["charttime"] < row["storetime"]
        missing += not row["storetime"]
        if row["hadm_id"]:
            stay = stays[row["hadm_id"]]
            assert _arrival(stay) <= row["charttime"] <= stay["dischtime"]
    assert 0 < missing < 0.03 * len(rows("labevents"))


def test_orders_precede_everything_they_lead_to(rows: Reader) -> None:
    stays = _stays(rows)
    orders = {row["poe_id"]: row for row in rows("poe")}
    later = 0
    for order in orders.values():
        stay = stays[order["hadm_id"]]
        assert _arrival(stay) <= order["ordertime"] <= stay["dischtime"]
        if order["discontinued_by_poe_id"]:
            ending = orders[order["discontinued_by_poe_id"]]
            assert ending["ordertime"] > order["ordertime"]
            assert ending["discontinue_of_poe_id"] == order["poe_id"]
    products = {row["pharmacy_id"]: row for row in rows("pharmacy")}
    for product in products.values():
        assert product["entertime"] <= product["starttime"] <= product["stoptime"]
        later += orders[product["poe_id"]]["ordertime"] > product["entertime"]
    assert 0.04 < later / len(products) < 0.3, "pharmacy rows that carry the id of a later order, as the real ones do"
    for dose in rows("emar"):
        assert products[dose["pharmacy_id"]]["entertime"] <= dose["charttime"] <= dose["storetime"]
        assert dose["charttime"] <= stays[dose["hadm_id"]]["dischtime"]


def test_orders_are_numbered_in_time(rows: Reader) -> None:
    last: dict[str, tuple[int, str]] = {}
    for order in rows("poe"):
        number, moment = last.get(order["subject_id"], (0, ""))
        assert int(order["poe_seq"]) > number
        assert order["ordertime"] >= moment
        last[order["subject_id"]] = (int(order["poe_seq"]), order["ordertime"])


def test_nothing_is_charted_outside_intensive_care(rows: Reader) -> None:
    stays = {row["stay_id"]: row for row in rows("icustays")}
    for table in ("chartevents", "outputevents", "datetimeevents"):
        for row in rows(table):
            stay = stays[row["stay_id"]]
            assert stay["intime"] <= row["charttime"] <= stay["outtime"]
            assert row["charttime"] <= row["storetime"]
    for table in ("inputevents", "ingredientevents", "procedureevents"):
        for row in rows(table):
            stay = stays[row["stay_id"]]
            assert stay["intime"] <= row["starttime"] < row["endtime"] <= stay["outtime"], table


def test_cultures_come_before_antibiotics_mostly(rows: Reader) -> None:
    drugs = ("Vancomycin", "Piperacillin", "CefePIME", "CefTRIAXone", "Meropenem", "Levofloxacin", "Azithromycin")
    first_drug: dict[str, str] = {}
    first_culture: dict[str, str] = {}
    for row in rows("pharmacy"):
        if row["medication"].startswith(drugs):
            first_drug[row["hadm_id"]] = min(row["starttime"], first_drug.get(row["hadm_id"], "9"))
    for row in rows("microbiologyevents"):
        if row["charttime"] and row["hadm_id"] and row["test_name"] == "Blood Culture, Routine":
            first_culture[row["hadm_id"]] = min(row["charttime"], first_culture.get(row["hadm_id"], "9"))
    both = set(first_drug) & set(first_culture)
    assert len(both) > 25
    assert sum(first_culture[stay] < first_drug[stay] for stay in both) > 0.8 * len(both)


def test_discharge_summaries_are_dated_midnight_and_signed_later(rows: Reader) -> None:
    stays = _stays(rows)
    for note in rows("discharge"):
        assert note["charttime"] == stays[note["hadm_id"]]["dischtime"][:10] + " 00:00:00"
        assert not note["storetime"] or note["storetime"] > stays[note["hadm_id"]]["dischtime"]


def test_emergency_stays_carry_their_vital_signs(rows: Reader) -> None:
    stays = {row["stay_id"]: row for row in rows("edstays")}
    assert {row["stay_id"] for row in rows("triage")} == set(stays)
    for table in ("vitalsign", "medrecon", "pyxis"):
        for row in rows(table):
            assert stays[row["stay_id"]]["intime"] <= row["charttime"] <= stays[row["stay_id"]]["outtime"]
    home = [row for row in stays.values() if not row["hadm_id"]]
    assert home
    assert len(home) < 0.5 * len(stays)


def test_what_is_done_in_a_stay_begins_after_arrival_and_three_hours_before_its_end() -> None:
    catalog, done = load_catalog(), 0
    for number in range(8):
        subject, dice = draw_subject(SEED, number, catalog)
        for condition in catalog.conditions.values():
            if not condition.get("complaints"):
                continue
            stay = plan_encounter(
                dice,
                catalog,
                Numbers(number),
                subject=subject,
                condition=condition,
                arrival=subject.first_visit,
                number=0,
            )
            assert all(stay.arrival <= act.moment < stay.discharge - 3 * HOUR for act in stay.acts)
            assert list(stay.acts) == sorted(stay.acts, key=lambda act: act.moment)
            done += len(stay.acts)
    assert done > 100
