"""Exports: a store's records in the forms of others. Today MEDS 0.4 (:mod:`wardround.exports.meds`)."""
