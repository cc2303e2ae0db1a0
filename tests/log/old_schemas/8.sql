PRAGMA page_size = 2048;
PRAGMA application_id = 1114989668;
BEGIN;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, session INTEGER NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL, digest TEXT NOT NULL,
  expires_at INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_of_session ON approvals (session);
CREATE TABLE blob_refs (
  blob TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7RRGW5N4EFGBGV2VTV059JH/call_0_0',1,'d61dc6749806bf4c3d52cb4bace6f408151c108e9364e87857b9546e03cd13fe');
INSERT INTO "claims" VALUES(2,'run_01M7RRGWF8SE30XSVK3F2CRNSN/call_0_0',1,'813809dde8e16a9079622b43af4ac48286b4e647f6b827f3892e61e7507ca385');
INSERT INTO "claims" VALUES(2,'run_01M7RRGWF8SE30XSVK3F2CRNSN/call_1_0',1,'3b202a0ffbbb6e511ec032943c59b580ecfff78e6f4cb67f51c729306186fb8c');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1795053613213,NULL,'session_started','{"sessionId":"sess_01M7RRGW469JCD6YX8BC3ZP2PC","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1795053613238,'run_01M7RRGW5N4EFGBGV2VTV059JH','user_message','{"messageId":"msg_01M7RRGW5M7ET5AYP8RF1XF1E4","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1795053613238,'run_01M7RRGW5N4EFGBGV2VTV059JH','run_started','{"runId":"run_01M7RRGW5N4EFGBGV2VTV059JH","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":5}');
INSERT INTO "events" VALUES(1,4,1795053613243,'run_01M7RRGW5N4EFGBGV2VTV059JH','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1795053613243,'run_01M7RRGW5N4EFGBGV2VTV059JH','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1795053613243,'run_01M7RRGW5N4EFGBGV2VTV059JH','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4582}');
INSERT INTO "events" VALUES(1,7,1795053613244,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1795053613244,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1795053613244,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_message','{"messageId":"asst_01M7RRGW5N4EFGBGV2VTV059JH.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1795053613244,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_done','{"messageId":"asst_01M7RRGW5N4EFGBGV2VTV059JH.1"}');
INSERT INTO "events" VALUES(1,11,1795053613244,'run_01M7RRGW5N4EFGBGV2VTV059JH','usage','{"turn":1,"inputTokens":207,"outputTokens":19,"context":{"used":226,"limit":128000,"system":275,"summary":0,"memory":0,"tools":4044,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":226,"toolCalls":0,"seconds":0.006,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1795053613244,'run_01M7RRGW5N4EFGBGV2VTV059JH','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"],"tiers":{"run_shell":"privileged","read_file":"read-only"}}');
INSERT INTO "events" VALUES(1,13,1795053613268,'run_01M7RRGW5N4EFGBGV2VTV059JH','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,14,1795053613273,'run_01M7RRGW5N4EFGBGV2VTV059JH','approval_received','{"approvalId":"appr_01M7RRGW6S5SYYH0Z0V5T2840Q","decision":"approve","by":"policy","callId":"call_0_0","digest":"d61dc6749806bf4c3d52cb4bace6f408151c108e9364e87857b9546e03cd13fe"}');
INSERT INTO "events" VALUES(1,15,1795053613273,'run_01M7RRGW5N4EFGBGV2VTV059JH','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"d61dc6749806bf4c3d52cb4bace6f408151c108e9364e87857b9546e03cd13fe"}');
INSERT INTO "events" VALUES(1,16,1795053613290,'run_01M7RRGW5N4EFGBGV2VTV059JH','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":3,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(1,17,1795053613299,'run_01M7RRGW5N4EFGBGV2VTV059JH','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,18,1795053613299,'run_01M7RRGW5N4EFGBGV2VTV059JH','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":0,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local","outcome":"returned"}');
INSERT INTO "events" VALUES(1,19,1795053613299,'run_01M7RRGW5N4EFGBGV2VTV059JH','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,20,1795053613299,'run_01M7RRGW5N4EFGBGV2VTV059JH','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,21,1795053613299,'run_01M7RRGW5N4EFGBGV2VTV059JH','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4636}');
INSERT INTO "events" VALUES(1,22,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,23,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,24,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_message','{"messageId":"asst_01M7RRGW5N4EFGBGV2VTV059JH.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,25,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','assistant_done','{"messageId":"asst_01M7RRGW5N4EFGBGV2VTV059JH.2"}');
INSERT INTO "events" VALUES(1,26,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','usage','{"turn":2,"inputTokens":231,"outputTokens":2,"context":{"used":233,"limit":128000,"system":275,"summary":0,"memory":0,"tools":4044,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":459,"toolCalls":2,"seconds":0.071,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,27,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','phase','{"name":"streaming","durationMs":12.0}');
INSERT INTO "events" VALUES(1,28,1795053613309,'run_01M7RRGW5N4EFGBGV2VTV059JH','phase','{"name":"tool_execution","durationMs":55.0}');
INSERT INTO "events" VALUES(1,29,1795053613311,'run_01M7RRGW5N4EFGBGV2VTV059JH','files_changed','{"checkpointId":"cp_6a80cdb96ee97d01d72a2b21a0","files":[{"path":"made.txt","change":"added","added":1,"removed":0}],"callId":"call_0_0"}');
INSERT INTO "events" VALUES(1,30,1795053613311,'run_01M7RRGW5N4EFGBGV2VTV059JH','run_complete','{"runId":"run_01M7RRGW5N4EFGBGV2VTV059JH","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1795053613540,NULL,'session_started','{"sessionId":"sess_01M7RRGWEBEK54BC12266GS182","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1795053613544,'run_01M7RRGWF8SE30XSVK3F2CRNSN','user_message','{"messageId":"msg_01M7RRGWF6DAQZQJKEEBA42GNK","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1795053613545,'run_01M7RRGWF8SE30XSVK3F2CRNSN','run_started','{"runId":"run_01M7RRGWF8SE30XSVK3F2CRNSN","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":5}');
INSERT INTO "events" VALUES(2,4,1795053613799,'run_01M7RRGWF8SE30XSVK3F2CRNSN','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1795053613799,'run_01M7RRGWF8SE30XSVK3F2CRNSN','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1795053613799,'run_01M7RRGWF8SE30XSVK3F2CRNSN','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4700}');
INSERT INTO "events" VALUES(2,7,1795053613800,'run_01M7RRGWF8SE30XSVK3F2CRNSN','assistant_message','{"messageId":"asst_01M7RRGWF8SE30XSVK3F2CRNSN.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1795053613800,'run_01M7RRGWF8SE30XSVK3F2CRNSN','assistant_done','{"messageId":"asst_01M7RRGWF8SE30XSVK3F2CRNSN.1"}');
INSERT INTO "events" VALUES(2,9,1795053613800,'run_01M7RRGWF8SE30XSVK3F2CRNSN','usage','{"turn":1,"inputTokens":292,"outputTokens":10,"context":{"used":302,"limit":128000,"system":275,"summary":0,"memory":117,"tools":4044,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":302,"toolCalls":0,"seconds":0.255,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1795053613800,'run_01M7RRGWF8SE30XSVK3F2CRNSN','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,11,1795053613816,'run_01M7RRGWF8SE30XSVK3F2CRNSN','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,12,1795053613828,'run_01M7RRGWF8SE30XSVK3F2CRNSN','approval_received','{"approvalId":"appr_01M7RRGWR4X50SNH699XP0H5JB","decision":"approve","by":"policy","callId":"call_0_0","digest":"813809dde8e16a9079622b43af4ac48286b4e647f6b827f3892e61e7507ca385"}');
INSERT INTO "events" VALUES(2,13,1795053613828,'run_01M7RRGWF8SE30XSVK3F2CRNSN','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"813809dde8e16a9079622b43af4ac48286b4e647f6b827f3892e61e7507ca385"}');
INSERT INTO "events" VALUES(2,14,1795053613842,'run_01M7RRGWF8SE30XSVK3F2CRNSN','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":3,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(2,15,1795053613843,'run_01M7RRGWF8SE30XSVK3F2CRNSN','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,16,1795053613843,'run_01M7RRGWF8SE30XSVK3F2CRNSN','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,17,1795053613843,'run_01M7RRGWF8SE30XSVK3F2CRNSN','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4731}');
INSERT INTO "events" VALUES(2,18,1795053613845,'run_01M7RRGWF8SE30XSVK3F2CRNSN','assistant_message','{"messageId":"asst_01M7RRGWF8SE30XSVK3F2CRNSN.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,19,1795053613845,'run_01M7RRGWF8SE30XSVK3F2CRNSN','assistant_done','{"messageId":"asst_01M7RRGWF8SE30XSVK3F2CRNSN.2"}');
INSERT INTO "events" VALUES(2,20,1795053613845,'run_01M7RRGWF8SE30XSVK3F2CRNSN','usage','{"turn":2,"inputTokens":306,"outputTokens":10,"context":{"used":316,"limit":128000,"system":275,"summary":0,"memory":117,"tools":4044,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":618,"toolCalls":1,"seconds":0.3,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,21,1795053613845,'run_01M7RRGWF8SE30XSVK3F2CRNSN','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,22,1795053613846,'run_01M7RRGWF8SE30XSVK3F2CRNSN','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,23,1795053613846,'run_01M7RRGWF8SE30XSVK3F2CRNSN','approval_received','{"approvalId":"appr_01M7RRGWRPADYYWRCDH4SNA1YD","decision":"approve","by":"policy","callId":"call_1_0","digest":"3b202a0ffbbb6e511ec032943c59b580ecfff78e6f4cb67f51c729306186fb8c"}');
INSERT INTO "events" VALUES(2,24,1795053613846,'run_01M7RRGWF8SE30XSVK3F2CRNSN','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"3b202a0ffbbb6e511ec032943c59b580ecfff78e6f4cb67f51c729306186fb8c"}');
INSERT INTO "events" VALUES(2,25,1795053613847,'run_01M7RRGWF8SE30XSVK3F2CRNSN','files_changed','{"checkpointId":"cp_50d2f7ffd66b92f3e0a47ff019","files":[{"path":"work.txt","change":"added","added":1,"removed":0}],"callId":"call_0_0"}');
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7RRGW5M7ET5AYP8RF1XF1E4',3);
INSERT INTO "keys" VALUES(2,'msg_01M7RRGWF6DAQZQJKEEBA42GNK',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
, archived INTEGER NOT NULL DEFAULT 0, facts TEXT, user TEXT, used_hour INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7RRGW469JCD6YX8BC3ZP2PC','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed','make it',1795053613204,1795053613311,1,30,1,NULL,0,'{"archived":false,"cost_usd":null,"tokens":459,"context":{"used":233,"limit":128000},"waiting":0,"parent":null,"day":0,"day_cost_usd":0.0,"agent":null}',NULL,498626);
INSERT INTO "sessions" VALUES(2,'sess_01M7RRGWEBEK54BC12266GS182','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running','work on it',1795053613536,1795053613847,1,25,1,'elsewhere:::1::0000000000000000',0,'{"archived":false,"cost_usd":null,"tokens":618,"context":{"used":316,"limit":128000},"waiting":0,"parent":null,"day":0,"day_cost_usd":0.0,"agent":null}',NULL,498626);
CREATE INDEX sessions_by_use ON sessions (used_hour);
CREATE INDEX sessions_of_folder ON sessions (root_path, used_hour);
CREATE INDEX sessions_of_user ON sessions (user, used_hour) WHERE user IS NOT NULL;
CREATE TABLE spent (
  user TEXT NOT NULL, day INTEGER NOT NULL, cost_usd REAL NOT NULL, PRIMARY KEY (user, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
, boot TEXT, boot_ms INTEGER, minted_by TEXT, kind TEXT NOT NULL DEFAULT 'token') STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('5fbcf801ba0a268c7aceb82b48321e138380ce5191d023aee779f7a7d1bd8ce3',1,'driver',NULL,NULL,NULL,NULL,'token');
INSERT INTO "tokens" VALUES('b24c870c88007af2c4937a576234d4b1d6d1c93a842d79b15e60b4aec1b23e04',2,'driver',NULL,NULL,NULL,NULL,'token');
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
CREATE INDEX tokens_of_session ON tokens (session);
PRAGMA user_version = 8;
COMMIT;
