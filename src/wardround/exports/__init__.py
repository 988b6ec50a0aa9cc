"""Exports: a store's records in the forms of others: MEDS 0.4 (:mod:`wardround.exports.meds`) and Parquet."""
