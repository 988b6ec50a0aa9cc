BEGIN TRANSACTION;
CREATE TABLE experience (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, task TEXT NOT NULL, tool TEXT NOT NULL, key INTEGER REFERENCES key,
    sample TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL, provenance TEXT NOT NULL, facts TEXT NOT NULL
);
INSERT INTO "experience" VALUES('a09e1ec5775ede6df239','actor','diagnoses','',1,'sample-1','bc85278473ad05349deed7186bb30506','train','{"created":"2026-11-22T04:22:44.699146+00:00","episode":"","model":"","prompts":{},"run":"","sample":"sample-1","split":"train","subject":"bc85278473ad05349deed7186bb30506"}','{}');
INSERT INTO "experience" VALUES('392ab01c1c6866865511','summariser','diagnoses','',1,'sample-1','bc85278473ad05349deed7186bb30506','train','{"created":"2026-11-22T04:22:44.699251+00:00","episode":"","model":"","prompts":{},"run":"","sample":"sample-1","split":"train","subject":"bc85278473ad05349deed7186bb30506"}','{}');
INSERT INTO "experience" VALUES('8fbf2dc2ee2b8fd61ebe','actor','diagnoses','',2,'sample-2','e9118d5c00179c73fba0979404e6bcbc','train','{"created":"2026-11-22T04:22:44.713828+00:00","episode":"","model":"","prompts":{},"run":"","sample":"sample-2","split":"train","subject":"e9118d5c00179c73fba0979404e6bcbc"}','{}');
INSERT INTO "experience" VALUES('fb3f9f6383dedfe7f187','tool','diagnoses','run_sql_query',NULL,'sample-3','388b13c397e0c9de87387962af172b88','train','{"created":"2026-11-22T04:22:44.715538+00:00","episode":"","model":"","prompts":{},"run":"","sample":"sample-3","split":"train","subject":"388b13c397e0c9de87387962af172b88"}','{}');
CREATE TABLE feedback (
    number INTEGER PRIMARY KEY AUTOINCREMENT, experience TEXT NOT NULL REFERENCES experience, kind TEXT NOT NULL,
    value REAL, detail TEXT NOT NULL, at TEXT NOT NULL
);
INSERT INTO "feedback" VALUES(1,'a09e1ec5775ede6df239','served',0.7,'{"episode":"e"}','2026-11-22T04:22:44.722912+00:00');
INSERT INTO "feedback" VALUES(2,'a09e1ec5775ede6df239','served',0.7,'{"episode":"e"}','2026-11-22T04:22:44.723300+00:00');
CREATE TABLE key (
    number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, encoder TEXT NOT NULL, text_hash TEXT NOT NULL,
    vector BLOB NOT NULL
);
INSERT INTO "key" VALUES(1,X'3F3B82EDEE5528AA816409145E0B27E7D584E3F30A9C875735FDDD6EA95D2E9E','hand','',X'0000803F00000000');
INSERT INTO "key" VALUES(2,X'FEA8CF6A8881C6BFEBA60DEC83DC1ABA0D9F1058959CF9744AD133532FCDCD4B','hand','',X'000000000000803F');
CREATE TABLE revision (
    number INTEGER PRIMARY KEY AUTOINCREMENT, experience TEXT NOT NULL REFERENCES experience, live INTEGER NOT NULL,
    title TEXT NOT NULL, description TEXT NOT NULL, content TEXT NOT NULL, score REAL,
    sample TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL
);
INSERT INTO "revision" VALUES(1,'a09e1ec5775ede6df239',1,'ask narrowly','When asked','Do ask narrowly',NULL,'sample-1','bc85278473ad05349deed7186bb30506','train','added','2026-11-22T04:22:44.703969+00:00');
INSERT INTO "revision" VALUES(2,'392ab01c1c6866865511',1,'sum up early','When asked','Do sum up early',NULL,'sample-1','bc85278473ad05349deed7186bb30506','train','added','2026-11-22T04:22:44.704062+00:00');
INSERT INTO "revision" VALUES(3,'8fbf2dc2ee2b8fd61ebe',1,'name every drug','When asked','Do name every drug',0.5,'sample-2','e9118d5c00179c73fba0979404e6bcbc','train','added','2026-11-22T04:22:44.714144+00:00');
INSERT INTO "revision" VALUES(4,'fb3f9f6383dedfe7f187',1,'tool advice','When asked','Do tool advice',NULL,'sample-3','388b13c397e0c9de87387962af172b88','train','added','2026-11-22T04:22:44.715698+00:00');
INSERT INTO "revision" VALUES(5,'a09e1ec5775ede6df239',1,'ask narrowly','When asked','Give a time range and a table',NULL,'sample-4','c57a556ad1f6c104c48d73238608fb65','train','seen again','2026-11-22T04:22:44.721607+00:00');
INSERT INTO "revision" VALUES(6,'392ab01c1c6866865511',0,'sum up early','When asked','Do sum up early',NULL,'sample-1','bc85278473ad05349deed7186bb30506','train','misleading','2026-11-22T04:22:44.722394+00:00');
CREATE TABLE schema (version INTEGER NOT NULL, application TEXT NOT NULL);
INSERT INTO "schema" VALUES(1,'wardround-bank');
CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO "setting" VALUES('dimensions',2);
INSERT INTO "setting" VALUES('encoder','hand');
INSERT INTO "setting" VALUES('subject_key',X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F');
CREATE INDEX revision_of ON revision (experience, number);
CREATE TRIGGER revision_stays BEFORE UPDATE ON revision BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
CREATE TRIGGER revision_remains BEFORE DELETE ON revision BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('revision',6);
INSERT INTO "sqlite_sequence" VALUES('feedback',2);
COMMIT;
