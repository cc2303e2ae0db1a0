PRAGMA page_size = 2048;
PRAGMA application_id = 1114989668;
BEGIN;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, session INTEGER NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL, digest TEXT NOT NULL,
  expires_at INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_refs (
  blob TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "blob_refs" VALUES('1f310fdb347e4d01057a18a28b0d4397b8fcc47290d10dc0daa36425ef919be1',1);
INSERT INTO "blob_refs" VALUES('117fe5bba8c8ea443792f7d362bbc5b9c5a1d58ce6766b1ba85744b7d5c01761',2);
INSERT INTO "blob_refs" VALUES('33f148c7c96e611f831541b0d906a55a8ec5f22d71e967438b3115673e9d80f0',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N864YQF4P2DE7598WN9RFG/call_0_0',1,'1f310fdb347e4d01057a18a28b0d4397b8fcc47290d10dc0daa36425ef919be1');
INSERT INTO "claims" VALUES(2,'run_01M7N866E2G5FK4ZK94ZQDF0ZY/call_0_0',1,'117fe5bba8c8ea443792f7d362bbc5b9c5a1d58ce6766b1ba85744b7d5c01761');
INSERT INTO "claims" VALUES(2,'run_01M7N866E2G5FK4ZK94ZQDF0ZY/call_1_0',1,'33f148c7c96e611f831541b0d906a55a8ec5f22d71e967438b3115673e9d80f0');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935821260,NULL,'session_started','{"sessionId":"sess_01M7N864Y02C7STAGAC6JPTPAW","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935821271,'run_01M7N864YQF4P2DE7598WN9RFG','user_message','{"messageId":"msg_01M7N864YD7SJTSZWNPM7W2CG9","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935821272,'run_01M7N864YQF4P2DE7598WN9RFG','run_started','{"runId":"run_01M7N864YQF4P2DE7598WN9RFG","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":2}');
INSERT INTO "events" VALUES(1,4,1794935821283,'run_01M7N864YQF4P2DE7598WN9RFG','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935821283,'run_01M7N864YQF4P2DE7598WN9RFG','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935821283,'run_01M7N864YQF4P2DE7598WN9RFG','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3948}');
INSERT INTO "events" VALUES(1,7,1794935821284,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935821285,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935821285,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_message','{"messageId":"asst_01M7N864YQF4P2DE7598WN9RFG.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935821285,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_done','{"messageId":"asst_01M7N864YQF4P2DE7598WN9RFG.1"}');
INSERT INTO "events" VALUES(1,11,1794935821285,'run_01M7N864YQF4P2DE7598WN9RFG','usage','{"turn":1,"inputTokens":202,"outputTokens":19,"context":{"used":221,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3417,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":221,"toolCalls":0,"seconds":0.013,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935821285,'run_01M7N864YQF4P2DE7598WN9RFG','phase','{"name":"streaming","durationMs":2.0}');
INSERT INTO "events" VALUES(1,13,1794935821285,'run_01M7N864YQF4P2DE7598WN9RFG','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"],"tiers":{"run_shell":"privileged","read_file":"read-only"}}');
INSERT INTO "events" VALUES(1,14,1794935821377,'run_01M7N864YQF4P2DE7598WN9RFG','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935821461,'run_01M7N864YQF4P2DE7598WN9RFG','approval_received','{"approvalId":"appr_01M7N8654JPKN0XT3A3E7EDTB6","decision":"approve","by":"policy","callId":"call_0_0","digest":"1f310fdb347e4d01057a18a28b0d4397b8fcc47290d10dc0daa36425ef919be1"}');
INSERT INTO "events" VALUES(1,16,1794935821461,'run_01M7N864YQF4P2DE7598WN9RFG','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"1f310fdb347e4d01057a18a28b0d4397b8fcc47290d10dc0daa36425ef919be1"}');
INSERT INTO "events" VALUES(1,17,1794935821492,'run_01M7N864YQF4P2DE7598WN9RFG','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":18,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(1,18,1794935821501,'run_01M7N864YQF4P2DE7598WN9RFG','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935821501,'run_01M7N864YQF4P2DE7598WN9RFG','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":0,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local","outcome":"returned"}');
INSERT INTO "events" VALUES(1,20,1794935821502,'run_01M7N864YQF4P2DE7598WN9RFG','phase','{"name":"tool_execution","durationMs":217.0}');
INSERT INTO "events" VALUES(1,21,1794935821502,'run_01M7N864YQF4P2DE7598WN9RFG','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935821502,'run_01M7N864YQF4P2DE7598WN9RFG','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935821502,'run_01M7N864YQF4P2DE7598WN9RFG','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4002}');
INSERT INTO "events" VALUES(1,24,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_message','{"messageId":"asst_01M7N864YQF4P2DE7598WN9RFG.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','assistant_done','{"messageId":"asst_01M7N864YQF4P2DE7598WN9RFG.2"}');
INSERT INTO "events" VALUES(1,28,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','usage','{"turn":2,"inputTokens":226,"outputTokens":2,"context":{"used":228,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3417,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":449,"toolCalls":2,"seconds":0.231,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,30,1794935821503,'run_01M7N864YQF4P2DE7598WN9RFG','run_complete','{"runId":"run_01M7N864YQF4P2DE7598WN9RFG","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935822780,NULL,'session_started','{"sessionId":"sess_01M7N866C7WTQR1FPMNDCKB3TH","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935822786,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','user_message','{"messageId":"msg_01M7N866DXT8AS2FKD7784ARKV","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935822787,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','run_started','{"runId":"run_01M7N866E2G5FK4ZK94ZQDF0ZY","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":2}');
INSERT INTO "events" VALUES(2,4,1794935822822,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935822822,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935822822,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3949}');
INSERT INTO "events" VALUES(2,7,1794935822823,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','assistant_message','{"messageId":"asst_01M7N866E2G5FK4ZK94ZQDF0ZY.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935822823,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','assistant_done','{"messageId":"asst_01M7N866E2G5FK4ZK94ZQDF0ZY.1"}');
INSERT INTO "events" VALUES(2,9,1794935822823,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','usage','{"turn":1,"inputTokens":203,"outputTokens":10,"context":{"used":213,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3417,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":213,"toolCalls":0,"seconds":0.036,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935822823,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(2,11,1794935822823,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,12,1794935822947,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935823004,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','approval_received','{"approvalId":"appr_01M7N866MH972X5W3F9DX308V5","decision":"approve","by":"policy","callId":"call_0_0","digest":"117fe5bba8c8ea443792f7d362bbc5b9c5a1d58ce6766b1ba85744b7d5c01761"}');
INSERT INTO "events" VALUES(2,14,1794935823004,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"117fe5bba8c8ea443792f7d362bbc5b9c5a1d58ce6766b1ba85744b7d5c01761"}');
INSERT INTO "events" VALUES(2,15,1794935823040,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":22,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(2,16,1794935823040,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','phase','{"name":"tool_execution","durationMs":217.0}');
INSERT INTO "events" VALUES(2,17,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3980}');
INSERT INTO "events" VALUES(2,20,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','assistant_message','{"messageId":"asst_01M7N866E2G5FK4ZK94ZQDF0ZY.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','assistant_done','{"messageId":"asst_01M7N866E2G5FK4ZK94ZQDF0ZY.2"}');
INSERT INTO "events" VALUES(2,22,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','usage','{"turn":2,"inputTokens":216,"outputTokens":10,"context":{"used":226,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3417,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":439,"toolCalls":1,"seconds":0.254,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','phase','{"name":"streaming","durationMs":0.0}');
INSERT INTO "events" VALUES(2,24,1794935823041,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,25,1794935823049,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935823050,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','approval_received','{"approvalId":"appr_01M7N866PAC8SSD7DPZ0YSJ6WB","decision":"approve","by":"policy","callId":"call_1_0","digest":"33f148c7c96e611f831541b0d906a55a8ec5f22d71e967438b3115673e9d80f0"}');
INSERT INTO "events" VALUES(2,27,1794935823050,'run_01M7N866E2G5FK4ZK94ZQDF0ZY','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"33f148c7c96e611f831541b0d906a55a8ec5f22d71e967438b3115673e9d80f0"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N864YD7SJTSZWNPM7W2CG9',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N866DXT8AS2FKD7784ARKV',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
, archived INTEGER NOT NULL DEFAULT 0, facts TEXT) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N864Y02C7STAGAC6JPTPAW','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed','make it',1794935821254,1794935821503,1,30,1,NULL,0,'{"archived":false,"cost_usd":null,"tokens":449,"context":{"used":228,"limit":128000},"waiting":0,"parent":null}');
INSERT INTO "sessions" VALUES(2,'sess_01M7N866C7WTQR1FPMNDCKB3TH','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running','work on it',1794935822740,1794935823050,1,27,1,'elsewhere:::1::0000000000000000',0,'{"archived":false,"cost_usd":null,"tokens":439,"context":{"used":226,"limit":128000},"waiting":0,"parent":null}');
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
, boot TEXT, boot_ms INTEGER, minted_by TEXT, kind TEXT NOT NULL DEFAULT 'token') STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('b0fcda6f9c108737e8f84cc59f06e32b499050fc803f0b3618e51f9b4e59d24a',1,'driver',NULL,NULL,NULL,NULL,'token');
INSERT INTO "tokens" VALUES('ee4d1f9827a281d0e5ee05e9c5bc46a497522052c89756fc2519bb70bdb56a1a',2,'driver',NULL,NULL,NULL,NULL,'token');
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
PRAGMA user_version = 6;
COMMIT;
