"""The tables of the synthetic hospital: module, file name and the column order of MIMIC-IV 2.2."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
