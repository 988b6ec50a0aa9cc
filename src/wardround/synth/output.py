"""The hospital's tables: module, file and columns of each, lines that wait, files in compressed batches."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO

from wardround.core import UserError

# The tables of the synthetic hospital: module, file name and the column order of MIMIC-IV 2.2.


_TABLES = {
    "hosp": {
        "admissions": "subject_id hadm_id admittime dischtime deathtime admission_type admit_provider_id "
        "admission_location discharge_location insurance language marital_status race edregtime edouttime "
        "hospital_expire_flag",
        "d_hcpcs": "code category long_description short_description",
        "d_icd_diagnoses": "icd_code icd_version long_title",
        "d_icd_procedures": "icd_code icd_version long_title",
        "d_labitems": "itemid label fluid category",
        "diagnoses_icd": "subject_id hadm_id seq_num icd_code icd_version",
        "drgcodes": "subject_id hadm_id drg_type drg_code description drg_severity drg_mortality",
        "emar": "subject_id hadm_id emar_id emar_seq poe_id pharmacy_id enter_provider_id charttime medication "
        "event_txt scheduletime storetime",
        "emar_detail": "subject_id emar_id emar_seq parent_field_ordinal administration_type pharmacy_id barcode_type "
        "reason_for_no_barcode complete_dose_not_given dose_due dose_due_unit dose_given dose_given_unit "
        "will_remainder_of_dose_be_given product_amount_given product_unit product_code product_description "
        "product_description_other prior_infusion_rate infusion_rate infusion_rate_adjustment "
        "infusion_rate_adjustment_amount infusion_rate_unit route infusion_complete completion_interval "
        "new_iv_bag_hung continued_infusion_in_other_location restart_interval side site "
        "non_formulary_visual_verification",
        "hcpcsevents": "subject_id hadm_id chartdate hcpcs_cd seq_num short_description",
        "labevents": "labevent_id subject_id hadm_id specimen_id itemid order_provider_id charttime storetime value "
        "valuenum valueuom ref_range_lower ref_range_upper flag priority comments",
        "microbiologyevents": "microevent_id subject_id hadm_id micro_specimen_id order_provider_id chartdate "
        "charttime spec_itemid spec_type_desc test_seq storedate storetime test_itemid test_name org_itemid org_name "
        "isolate_num quantity ab_itemid ab_name dilution_text dilution_comparison dilution_value interpretation "
        "comments",
        "omr": "subject_id chartdate seq_num result_name result_value",
        "patients": "subject_id gender anchor_age anchor_year anchor_year_group dod",
        "pharmacy": "subject_id hadm_id pharmacy_id poe_id starttime stoptime medication proc_type status entertime "
        "verifiedtime route frequency disp_sched infusion_type sliding_scale lockout_interval basal_rate one_hr_max "
        "doses_per_24_hrs duration duration_interval expiration_value expiration_unit expirationdate dispensation "
        "fill_quantity",
        "poe": "poe_id poe_seq subject_id hadm_id ordertime order_type order_subtype transaction_type "
        "discontinue_of_poe_id discontinued_by_poe_id order_provider_id order_status",
        "poe_detail": "poe_id poe_seq subject_id field_name field_value",
        "prescriptions": "subject_id hadm_id pharmacy_id poe_id poe_seq order_provider_id starttime stoptime drug_type "
        "drug formulary_drug_cd gsn ndc prod_strength form_rx dose_val_rx dose_unit_rx form_val_disp form_unit_disp "
        "doses_per_24_hrs route",
        "procedures_icd": "subject_id hadm_id seq_num chartdate icd_code icd_version",
        "provider": "provider_id",
        "services": "subject_id hadm_id transfertime prev_service curr_service",
        "transfers": "subject_id hadm_id transfer_id eventtype careunit intime outtime",
    },
    "icu": {
        "caregiver": "caregiver_id",
        "chartevents": "subject_id hadm_id stay_id caregiver_id charttime storetime itemid value valuenum valueuom "
        "warning",
        "d_items": "itemid label abbreviation linksto category unitname param_type lownormalvalue highnormalvalue",
        "datetimeevents": "subject_id hadm_id stay_id caregiver_id charttime storetime itemid value valueuom warning",
        "icustays": "subject_id hadm_id stay_id first_careunit last_careunit intime outtime los",
        "ingredientevents": "subject_id hadm_id stay_id caregiver_id starttime endtime storetime itemid amount "
        "amountuom rate rateuom orderid linkorderid statusdescription originalamount originalrate",
        "inputevents": "subject_id hadm_id stay_id caregiver_id starttime endtime storetime itemid amount amountuom "
        "rate rateuom orderid linkorderid ordercategoryname secondaryordercategoryname ordercomponenttypedescription "
        "ordercategorydescription patientweight totalamount totalamountuom isopenbag continueinnextdept "
        "statusdescription originalamount originalrate",
        "outputevents": "subject_id hadm_id stay_id caregiver_id charttime storetime itemid value valueuom",
        "procedureevents": "subject_id hadm_id stay_id caregiver_id starttime endtime storetime itemid value valueuom "
        "location locationcategory orderid linkorderid ordercategoryname ordercategorydescription patientweight "
        "isopenbag continueinnextdept statusdescription ORIGINALAMOUNT ORIGINALRATE",
    },
    "ed": {
        "diagnosis": "subject_id stay_id seq_num icd_code icd_version icd_title",
        "edstays": "subject_id hadm_id stay_id intime outtime gender race arrival_transport disposition",
        "medrecon": "subject_id stay_id charttime name gsn ndc etc_rn etccode etcdescription",
        "pyxis": "subject_id stay_id charttime med_rn name gsn_rn gsn",
        "triage": "subject_id stay_id temperature heartrate resprate o2sat sbp dbp pain acuity chiefcomplaint",
        "vitalsign": "subject_id stay_id charttime temperature heartrate resprate o2sat sbp dbp rhythm pain",
    },
    "note": {
        "discharge": "note_id subject_id hadm_id note_type note_seq charttime storetime text",
        "discharge_detail": "note_id subject_id field_name field_value field_ordinal",
        "radiology": "note_id subject_id hadm_id note_type note_seq charttime storetime text",
        "radiology_detail": "note_id subject_id field_name field_value field_ordinal",
    },
    "cxr": {
        "cxr_images": "subject_id study_id dicom_id acquired view_position height width sop_instance_uid",
        "cxr_labels": "subject_id study_id finding value",
        "cxr_reports": "subject_id study_id charttime storetime text",
    },
}

COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {table: tuple(text.split()) for tables in _TABLES.values() for table, text in tables.items()}
)
"""Table -> its columns in file order."""

MODULES: Mapping[str, str] = MappingProxyType({table: module for module, tables in _TABLES.items() for table in tables})
"""Table -> the folder it lies in."""

DICTIONARIES = ("caregiver", "d_hcpcs", "d_icd_diagnoses", "d_icd_procedures", "d_items", "d_labitems", "provider")
"""Tables that do not depend on the number of patients."""


# A batch is one gzip member (time stamp 0), so files are the same bytes however many processes made them.


Packed = Mapping[str, tuple[bytes, int, int]]
"""Table -> (bytes, rows, uncompressed bytes)."""
_LEVEL = 4


def pack(lines: Mapping[str, list[str]], *, compress: bool) -> dict[str, tuple[bytes, int, int]]:
    """Encode, and compress, the lines of each table that has any."""
    packed = {}
    for table, rows in lines.items():
        if rows:
            plain = "".join(rows).encode()
            body = gzip.compress(plain, _LEVEL, mtime=0) if compress else plain
            packed[table] = (body, len(rows), len(plain))
    return packed


class Files:
    """Open files of all tables of the chosen modules; counts rows and bytes."""

    def __init__(self, folder: Path, modules: set[str], *, compress: bool) -> None:
        self.folder, self.compress = folder, compress
        self.rows: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self._checksums: dict[str, int] = {}
        self._files: dict[str, BinaryIO] = {}
        self._tables = [table for table in COLUMNS if MODULES[table] in modules]

    def __enter__(self) -> Files:
        for table in self._tables:
            path = self.folder / MODULES[table] / f"{table}.csv{'.gz' if self.compress else ''}"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[table] = path.open("wb")
            except OSError as error:
                raise UserError(f"cannot write {str(path)!r}: {error.strerror}; choose another folder") from error
            self.rows[table] = self.bytes[table] = self._checksums[table] = 0
            header = ",".join(COLUMNS[table]) + "\n"
            self._write(table, pack({table: [header]}, compress=self.compress)[table][0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def append(self, packed: Packed) -> None:
        """Append a batch to the files of the chosen modules."""
        for table in self._files:
            if table in packed:
                body, rows, plain = packed[table]
                self._write(table, body)
                self.rows[table] += rows
                self.bytes[table] += plain

    def _write(self, table: str, body: bytes) -> None:
        try:
            self._files[table].write(body)
        except OSError as error:
            raise UserError(
                f"cannot write table {table!r}: {error.strerror}; free space or choose another folder"
            ) from error
        self._checksums[table] = zlib.crc32(body, self._checksums[table])

    def checksums(self) -> dict[str, str]:
        """Return table -> CRC-32 of the file as hex: the same for the same seed."""
        return {table: f"{value:08x}" for table, value in self._checksums.items()}


# Rows waiting to be written: one list of finished CSV lines per table.


class TableLines:
    """The rows of a batch of subjects. ``tables[name].append(line)``; a line ends in a newline."""

    __slots__ = ("tables",)

    def __init__(self) -> None:
        self.tables: dict[str, list[str]] = {name: [] for name in COLUMNS if name not in DICTIONARIES}


def quoted(text: str) -> str:
    """Return a CSV cell: quoted exactly when it must be."""
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


_WITH_DIGITS = tuple(f"%.{digits}f" for digits in range(5))


def number_text(value: float, digits: int) -> str:
    """Return a number as laboratories print it: that many decimals, trailing zeros dropped."""
    if digits == 0:
        return str(round(value))
    return (_WITH_DIGITS[digits] % value).rstrip("0").rstrip(".")
