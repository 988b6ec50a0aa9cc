"""Statements a hostile or careless model could send. ``REFUSED`` must fail; ``BOUNDED`` may fail or answer, cheaply."""

from __future__ import annotations

# ruff: noqa: E501

LONG = "printf('%0190000d',0)"
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n{})"

REFUSED: dict[str, str] = {
    "empty": "",
    "only a comment": "-- nothing",
    "attach a file": "ATTACH DATABASE '/tmp/x.db' AS other",
    "attach memory": "ATTACH ':memory:' AS other",
    "detach": "DETACH DATABASE main",
    "vacuum into": "VACUUM INTO '/tmp/stolen.db'",
    "vacuum": "VACUUM",
    "pragma list": "PRAGMA database_list",
    "pragma write": "PRAGMA query_only = OFF",
    "pragma heap": "PRAGMA hard_heap_limit = 1",
    "pragma trusted": "PRAGMA trusted_schema=ON",
    "pragma function": "SELECT * FROM pragma_database_list",
    "pragma function with argument": "SELECT * FROM pragma_table_info('labevents')",
    "pragma function list": "SELECT name FROM pragma_function_list()",
    "pragma in a subquery": "SELECT (SELECT count(*) FROM pragma_compile_options)",
    "comment before pragma": "/* SELECT */ PRAGMA database_list",
    "comment inside": "SELECT/**/load_extension/**/('x')",
    "load extension": "SELECT load_extension('/tmp/x.so')",
    "load extension with entry": "SELECT load_extension('/tmp/x.so', 'main')",
    "readfile": "SELECT readfile('/etc/passwd')",
    "writefile": "SELECT writefile('/tmp/x', 'y')",
    "edit": "SELECT edit('x', 'sh')",
    "fts tokenizer": "SELECT fts3_tokenizer('simple')",
    "fts tokenizer pointer": "SELECT hex(fts3_tokenizer('simple'))",
    "virtual table": "CREATE VIRTUAL TABLE v USING fts5(x)",
    "virtual csv": "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
    "rtree": "CREATE VIRTUAL TABLE v USING rtree(a,b,c)",
    "dbstat": "SELECT * FROM dbstat",
    "dbstat behind a name": "WITH dbstat AS (SELECT 1 AS a) SELECT count(*) FROM main.dbstat",
    "statement list": "SELECT sql FROM sqlite_stmt",
    "tokenizer table": "SELECT * FROM fts3tokenize('simple', 'a b')",
    "schema": "SELECT * FROM sqlite_master",
    "schema, new name": "SELECT * FROM sqlite_schema",
    "schema, qualified": "SELECT sql FROM main.sqlite_master",
    "schema, temp": "SELECT * FROM sqlite_temp_master",
    "schema count": "SELECT count(*) FROM sqlite_master",
    "schema behind a name": "WITH sqlite_master AS (SELECT 1 AS a) SELECT count(*) FROM main.sqlite_master",
    "schema rowid": "SELECT max(rowid) FROM sqlite_master",
    "sequence": "SELECT * FROM sqlite_sequence",
    "insert": "INSERT INTO labevents DEFAULT VALUES",
    "update": "UPDATE labevents SET value = '1'",
    "delete": "DELETE FROM labevents",
    "delete behind with": "WITH x AS (SELECT 1) DELETE FROM labevents",
    "insert behind with": "WITH x AS (SELECT 1) INSERT INTO labevents SELECT * FROM x",
    "delete returning": "DELETE FROM labevents RETURNING *",
    "replace into": "REPLACE INTO labevents VALUES (1)",
    "create table": "CREATE TABLE t AS SELECT * FROM labevents",
    "create temp table": "CREATE TEMP TABLE t AS SELECT 1",
    "create view": "CREATE VIEW v AS SELECT * FROM labevents",
    "create trigger": "CREATE TRIGGER t AFTER INSERT ON labevents BEGIN SELECT load_extension('x'); END",
    "create index": "CREATE INDEX i ON labevents(value)",
    "drop": "DROP TABLE labevents",
    "alter": "ALTER TABLE labevents RENAME TO gone",
    "analyze": "ANALYZE",
    "reindex": "REINDEX",
    "begin": "BEGIN IMMEDIATE",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    "savepoint": "SAVEPOINT s",
    "release": "RELEASE s",
    "explain": "EXPLAIN SELECT * FROM labevents",
    "explain plan": "EXPLAIN QUERY PLAN SELECT * FROM labevents",
    "two statements": "SELECT 1; DROP TABLE labevents",
    "two statements behind a comment": "SELECT 1; -- end\nSELECT 2",
    "two statements and a string": "SELECT ';'; SELECT 2",
    "bound by number": "SELECT ?1",
    "bound by name": "SELECT :a, @b, $c",
    "null character": "SELECT 1 \x00 FROM labevents",
    "random": "SELECT random()",
    "random blob": "SELECT hex(randomblob(100))",
    "zero blob": "SELECT length(zeroblob(1000000000))",
    "giant number of zeros": "SELECT length(zeroblob(2147483647))",
    "json table": "SELECT * FROM json_each('[1,2]')",
    "json tree": "SELECT * FROM json_tree('[1,2]')",
    "json patch": f"SELECT json_patch({LONG}, {LONG})",
    "json arrow": "SELECT value -> '$' FROM labevents",
    "json group": "SELECT json_group_array(value) FROM labevents",
    "version": "SELECT sqlite_version()",
    "source": "SELECT sqlite_source_id()",
    "compile options": "SELECT sqlite_compileoption_get(1)",
    "changes": "SELECT total_changes(), last_insert_rowid()",
    "log": "SELECT sqlite_log(1, 'x')",
    "subtype": "SELECT subtype('x')",
    "match": "SELECT * FROM labevents WHERE value MATCH 'x'",
    "another subject's table": "SELECT * FROM other.labevents",
    "unknown table": "SELECT * FROM labevents_future",
    "long statement": "SELECT '" + "x" * 30_000 + "'",
    "deep parentheses": "SELECT " + "(" * 200 + "1" + ")" * 200,
    "deep not": "SELECT " + "NOT " * 500 + "1",
    "deep case": "SELECT " + "CASE WHEN 1 THEN " * 150 + "1" + " END" * 150,
    "deep subqueries": "SELECT " + "(SELECT " * 120 + "1" + ")" * 120,
    "many arms": " UNION ALL ".join(["SELECT 1"] * 60),
    "many columns": "SELECT " + ",".join(["1"] * 1000),
    "many arguments": "SELECT max(" + ",".join(["1"] * 200) + ")",
    "fan of WITH tables": "WITH c0 AS (SELECT value AS a FROM labevents LIMIT 1)"
    + "".join(f", c{i} AS (SELECT x.a FROM c{i - 1} x, c{i - 1} y)" for i in range(1, 17))
    + " SELECT count(*) FROM c16",
    "fan of WITH tables, qualified": "WITH c0(a) AS NOT MATERIALIZED (SELECT 1)"
    + "".join(f", [c{i}](a) AS NOT MATERIALIZED (SELECT x.a FROM c{i - 1} x JOIN c{i - 1}" for i in range(1, 20))
    + ") " * 19
    + " SELECT * FROM c19",
    "long LIKE pattern": f"SELECT {LONG} LIKE '%{'a' * 200}%'",
    "long format": "SELECT format('%.*c', 500000000, 'x')",
    "doubling": f"SELECT length({LONG}||{LONG})",
    "hex twice": f"SELECT hex({LONG})",
    "replace to a giant": f"SELECT replace({LONG}, '0', {LONG})",
    "quote a giant": f"SELECT quote({LONG}||{LONG})",
}

BOUNDED: dict[str, str] = {
    "endless recursion": COUNT.format("") + " SELECT max(i) FROM n",
    "endless recursion, rows": COUNT.format("") + " SELECT i FROM n",
    "endless recursion in a subquery": "SELECT (" + COUNT.format("") + " SELECT count(*) FROM n)",
    "recursion that grows text": "WITH RECURSIVE n(s) AS (SELECT 'x' UNION ALL SELECT s||s FROM n) SELECT max(length(s)) FROM n",
    "recursion that keeps long texts": f"WITH RECURSIVE n(i,s) AS (SELECT 1,{LONG} UNION ALL SELECT i+1,s FROM n) "
    "SELECT count(DISTINCT s||i) FROM n",
    "recursion, distinct": "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i+1 FROM n) SELECT count(*) FROM n",
    "recursion, queue": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n UNION ALL SELECT i+2 FROM n "
    "ORDER BY 1) SELECT count(*) FROM n",
    "cross join": "SELECT count(*) FROM labevents a, labevents b, labevents c",
    "cross join, rows": "SELECT * FROM labevents a, labevents b, labevents c",
    "cross join of many": "SELECT count(*) FROM " + ",".join(f"labevents t{i}" for i in range(60)),
    "not equal join": "SELECT count(*) FROM labevents a JOIN labevents b ON a.value <> b.value JOIN labevents c",
    "cross join sorted": "SELECT a.value FROM labevents a, labevents b ORDER BY a.value || b.value",
    "cross join distinct": "SELECT DISTINCT a.row_id || b.row_id FROM labevents a, labevents b",
    "cross join grouped": "SELECT a.row_id||b.row_id AS k, count(*) FROM labevents a, labevents b GROUP BY k",
    "correlated": "SELECT (SELECT count(*) FROM labevents b WHERE b.valuenum < a.valuenum + random_not) FROM "
    "(SELECT valuenum, 1 AS random_not FROM labevents) a",
    "correlated three deep": "SELECT sum((SELECT sum((SELECT count(*) FROM labevents c WHERE c.value<>b.value)) "
    "FROM labevents b WHERE b.value<>a.value)) FROM labevents a",
    "sort long texts": f"SELECT s FROM (SELECT {LONG}||row_id AS s FROM labevents) ORDER BY s",
    "keep long texts": f"SELECT count(DISTINCT {LONG}||row_id) FROM labevents",
    "group long texts": f"SELECT {LONG}||row_id AS k, count(*) FROM labevents GROUP BY k",
    "return long texts": f"SELECT {LONG}||row_id FROM labevents",
    "many long columns": "SELECT " + ",".join(f"{LONG}||'{i}'" for i in range(190)),
    "many long columns, all rows": "SELECT "
    + ",".join(f"printf('%099000d',{i})" for i in range(190))
    + " FROM labevents",
    "group_concat": "SELECT group_concat(value||printf('%01000d',0)) FROM labevents a",
    "group_concat of a join": "SELECT group_concat(a.row_id, b.row_id) FROM labevents a, labevents b",
    "group_concat window": "SELECT group_concat(row_id) OVER (ORDER BY row_id ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING) FROM labevents",
    "window of a join": "SELECT sum(a.valuenum) OVER (ORDER BY b.row_id ROWS BETWEEN 10000 PRECEDING AND 10000 FOLLOWING) "
    "FROM labevents a, labevents b",
    "windows in number": "SELECT "
    + ",".join(f"ntile({i + 1}) OVER (PARTITION BY value ORDER BY row_id)" for i in range(100))
    + " FROM labevents",
    "window exclude": "SELECT max(row_id) OVER (ORDER BY value GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW "
    "EXCLUDE TIES) FROM labevents",
    "slow instr": f"SELECT instr({LONG}, printf('%095000d',0)||'1') FROM labevents",
    "slow replace": f"SELECT replace({LONG}, printf('%095000d',0)||'1', 'x') FROM labevents",
    "slow trim": f"SELECT trim({LONG}, '0123456789') FROM labevents",
    "slow rtrim": f"SELECT rtrim({LONG}, '123456789abcdefghijklmnopqrstuvwxyz0') FROM labevents",
    "slow LIKE": f"SELECT count(*) FROM labevents WHERE {LONG}||row_id LIKE '%{'0' * 118}1%'",
    "slow LIKE with holes": f"SELECT count(*) FROM labevents WHERE {LONG}||row_id LIKE '%{'0_' * 58}1%'",
    "LIKE with many percents": f"SELECT count(*) FROM labevents WHERE {LONG}||row_id LIKE '{'%0' * 60}%1'",
    "slow GLOB": f"SELECT count(*) FROM labevents WHERE {LONG}||row_id GLOB '*{'[0-9]' * 23}x*'",
    "GLOB with many stars": f"SELECT count(*) FROM labevents WHERE {LONG}||row_id GLOB '{'*0' * 60}*x'",
    "LIKE on long notes": "SELECT count(*) FROM labevents a, notes b WHERE b.text LIKE '%" + "a_" * 50 + "z%'",
    "instr on long notes": "SELECT sum(instr(b.text, substr(b.text, 100)||'z')) FROM labevents a, notes b",
    "upper on long notes": "SELECT count(DISTINCT upper(b.text)||a.row_id) FROM labevents a, notes b",
    "compare long notes": "SELECT count(*) FROM notes a, notes b, notes c, labevents d WHERE a.text||'' = b.text||''",
    "printf stars": "SELECT printf('%*d%*d%*d', 150000, 1, 1500, 2, 1500, 3) FROM labevents",
    "printf precision": "SELECT printf('%.190000f', 1.0/3) FROM labevents",
    "printf commas": "SELECT length(printf('%,190000d', 1)) FROM labevents",
    "char": "SELECT char(" + ",".join(["128512"] * 50) + ") FROM labevents",
    "unicode": f"SELECT unicode(substr({LONG}, 189999)) FROM labevents",
    "soundex": f"SELECT soundex({LONG}) FROM labevents",
    "long in-list": "SELECT count(*) FROM labevents a, labevents b WHERE a.itemid IN ("
    + ",".join(map(str, range(3000)))
    + ")",
    "many ors": "SELECT count(*) FROM labevents a, labevents b WHERE "
    + " OR ".join(f"a.itemid={i}" for i in range(90)),
    "many subqueries": "SELECT " + ",".join(f"(SELECT count(*) FROM labevents WHERE itemid<>{i})" for i in range(150)),
    "nested exists": "SELECT count(*) FROM labevents a WHERE EXISTS (SELECT 1 FROM labevents b WHERE b.value<>a.value AND "
    "EXISTS (SELECT 1 FROM labevents c WHERE c.value=a.value AND c.value=b.value AND c.itemid=-1))",
    "flattened unions": "SELECT a FROM ("
    + " UNION ALL ".join(["SELECT value AS a FROM labevents"] * 20)
    + ") WHERE a IN (SELECT a FROM ("
    + " UNION ALL ".join(["SELECT value AS a FROM labevents"] * 20)
    + ") WHERE a IN (SELECT a FROM ("
    + " UNION ALL ".join(["SELECT value AS a FROM labevents"] * 20)
    + ") WHERE a IN (SELECT a FROM ("
    + " UNION ALL ".join(["SELECT value AS a FROM labevents"] * 20)
    + "))))",
    "64 tables joined in a ring": "SELECT count(*) FROM "
    + ",".join(f"labevents t{i}" for i in range(60))
    + " WHERE "
    + " AND ".join(f"t{i}.itemid=t{i + 1}.itemid" for i in range(59)),
    "outer joins": "SELECT count(*) FROM labevents t0 "
    + " ".join(f"LEFT JOIN labevents t{i} ON t{i}.valuenum>t{i - 1}.valuenum" for i in range(1, 50)),
    "except and intersect": "SELECT a.row_id||b.row_id FROM labevents a, labevents b EXCEPT SELECT row_id FROM labevents "
    "INTERSECT SELECT row_id FROM labevents",
    "values": "VALUES " + ",".join(f"({i})" for i in range(2000)),
    "row values": "SELECT count(*) FROM labevents a, labevents b WHERE (a.value, a.row_id) > (b.value, b.row_id)",
    "big numbers": "SELECT 9223372036854775807 + 1, -9223372036854775808 / -1, 1e308 * 10, pow(10, 400), round(1.5, 999999999)",
    "division": "SELECT 1/0, 1%0, 1.0/0, sqrt(-1), log(0)",
    "times": "SELECT datetime('now', '+999999999 years'), strftime('%s %f %J %Y', 'now'), date(1e300), julianday('x') "
    "FROM labevents",
    "time in a join": "SELECT count(*) FROM labevents a, labevents b WHERE datetime(a.charttime, '+'||b.rowid||' seconds') > '2'",
    "long strftime": "SELECT length(strftime('" + "%Y%m%d%H%M%f" * 900 + "', 'now')) FROM labevents",
    "casts": f"SELECT CAST({LONG} AS INTEGER), CAST(x'ff' AS TEXT), CAST('9e999' AS REAL) FROM labevents",
    "invalid text": "SELECT CAST(x'fffe80' AS TEXT)",
    "blob": "SELECT x'00ff00', CAST('abc' AS BLOB)",
    "comment tricks": "SELECT 1 /* ; DROP TABLE labevents; -- */ -- ' \n FROM labevents /* unclosed",
    "quotes": 'SELECT "x\'; DROP TABLE labevents; --", [value], `value` FROM labevents',
    "string as table": "SELECT count(*) FROM 'labevents'",
    "count over a WITH table": "WITH x AS (SELECT value FROM labevents) SELECT count(*) FROM x",
    "rowid": "SELECT rowid, oid, _rowid_ FROM labevents",
    "natural join": "SELECT count(*) FROM labevents NATURAL JOIN labevents b NATURAL JOIN notes",
    "like escape": "SELECT 'a%' LIKE 'a\\%' ESCAPE '\\'",
    "collate": "SELECT value COLLATE NOCASE FROM labevents a ORDER BY 1 COLLATE RTRIM",
    "offset": "SELECT * FROM labevents a, labevents b LIMIT -1 OFFSET 9000000000000000000",
    "current time": "SELECT current_time, current_date, current_timestamp, datetime('now','localtime','utc')",
    "quadratic trim": f"SELECT length(trim({LONG}, replace(printf('%012000d',0),'0','1')||'0'||value)) FROM labevents",
    "long printf": "SELECT printf('%1000000000d', 1)",
    "sort made late": "SELECT k FROM (SELECT a.row_id||b.row_id AS k FROM labevents a, labevents b LIMIT 150000) "
    "ORDER BY substr(k, -4), k",
    "sort of numbers made late": COUNT.format(" LIMIT 400000") + " SELECT i FROM n ORDER BY (i*7919) % 1000003",
    "sort with a long common start": "SELECT printf('%05000d',0)||row_id AS k FROM labevents ORDER BY k",
    "distinct of numbers": COUNT.format(" LIMIT 900000") + " SELECT count(DISTINCT (i*7919) % 1000003) FROM n",
    "printf widths by the hundred": "SELECT printf(replace(printf('%0900d',0),'0','%.999c'), "
    + ",".join(["'x'"] * 50)
    + ") FROM labevents",
    "printf of printf": f"SELECT printf('%s%s', {LONG}, {LONG})",
    "long numbers": "SELECT CAST(printf('%0190000d',1) AS REAL) + row_id FROM labevents",
    "planner": "SELECT "
    + ",".join(
        "(SELECT count(*) FROM "
        + ",".join(f"labevents t{i}" for i in range(50))
        + f" WHERE t0.itemid={k}"
        + "".join(f" AND t{i}.itemid=t{i - 1}.itemid" for i in range(1, 30))
        + ")"
        for k in range(11)
    ),
    "planner with ors": "SELECT count(*) FROM "
    + ",".join(f"labevents t{i}" for i in range(60))
    + " WHERE "
    + " AND ".join("(" + " OR ".join(f"t{j}.itemid={i + j}" for j in range(i, i + 20)) + ")" for i in range(40)),
    "nested WITH in subqueries": "SELECT * FROM "
    + "(WITH a AS (SELECT 1 AS x) SELECT * FROM a, " * 30
    + "a"
    + ")" * 30,
    "many WITH tables": "WITH "
    + ", ".join(f"a{i}(x) AS (SELECT value FROM labevents)" for i in range(300))
    + " SELECT count(*) FROM "
    + ", ".join(f"a{i}" for i in range(60)),
}
