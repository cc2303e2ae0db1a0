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
INSERT INTO "blob_refs" VALUES('6d92185cb62b5fa98ad333c22a0b53899986fcb4accee1e11ef3972da4aa0a8f',1);
INSERT INTO "blob_refs" VALUES('5ed9ea2b174c4ed1bed0d12f919944987a365f09e9d9369779ae8b31c4d69842',2);
INSERT INTO "blob_refs" VALUES('df1943c3e84da1dcafaee314215a91d1b44d096e2aa24109779b254e645328c3',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N867XKBXN0N7PZF0Q73PNR/call_0_0',1,'6d92185cb62b5fa98ad333c22a0b53899986fcb4accee1e11ef3972da4aa0a8f');
INSERT INTO "claims" VALUES(2,'run_01M7N869NQW4P1ZGCQ5VTCYSDB/call_0_0',1,'5ed9ea2b174c4ed1bed0d12f919944987a365f09e9d9369779ae8b31c4d69842');
INSERT INTO "claims" VALUES(2,'run_01M7N869NQW4P1ZGCQ5VTCYSDB/call_1_0',1,'df1943c3e84da1dcafaee314215a91d1b44d096e2aa24109779b254e645328c3');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935824297,NULL,'session_started','{"sessionId":"sess_01M7N867WCMKNY6DYV5ACQR11M","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935824307,'run_01M7N867XKBXN0N7PZF0Q73PNR','user_message','{"messageId":"msg_01M7N867XEHB34JEXSS25CH8FN","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935824308,'run_01M7N867XKBXN0N7PZF0Q73PNR','run_started','{"runId":"run_01M7N867XKBXN0N7PZF0Q73PNR","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":3}');
INSERT INTO "events" VALUES(1,4,1794935824337,'run_01M7N867XKBXN0N7PZF0Q73PNR','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935824337,'run_01M7N867XKBXN0N7PZF0Q73PNR','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935824337,'run_01M7N867XKBXN0N7PZF0Q73PNR','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4558}');
INSERT INTO "events" VALUES(1,7,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_message','{"messageId":"asst_01M7N867XKBXN0N7PZF0Q73PNR.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_done','{"messageId":"asst_01M7N867XKBXN0N7PZF0Q73PNR.1"}');
INSERT INTO "events" VALUES(1,11,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','usage','{"turn":1,"inputTokens":204,"outputTokens":19,"context":{"used":223,"limit":128000,"system":271,"summary":0,"memory":0,"tools":4024,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":223,"toolCalls":0,"seconds":0.03,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,13,1794935824338,'run_01M7N867XKBXN0N7PZF0Q73PNR','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"],"tiers":{"run_shell":"privileged","read_file":"read-only"}}');
INSERT INTO "events" VALUES(1,14,1794935824516,'run_01M7N867XKBXN0N7PZF0Q73PNR','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935824589,'run_01M7N867XKBXN0N7PZF0Q73PNR','approval_received','{"approvalId":"appr_01M7N8686AH4KVQ700FFQTVSCR","decision":"approve","by":"policy","callId":"call_0_0","digest":"6d92185cb62b5fa98ad333c22a0b53899986fcb4accee1e11ef3972da4aa0a8f"}');
INSERT INTO "events" VALUES(1,16,1794935824589,'run_01M7N867XKBXN0N7PZF0Q73PNR','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"6d92185cb62b5fa98ad333c22a0b53899986fcb4accee1e11ef3972da4aa0a8f"}');
INSERT INTO "events" VALUES(1,17,1794935824703,'run_01M7N867XKBXN0N7PZF0Q73PNR','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":20,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(1,18,1794935824708,'run_01M7N867XKBXN0N7PZF0Q73PNR','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935824709,'run_01M7N867XKBXN0N7PZF0Q73PNR','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":0,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local","outcome":"returned"}');
INSERT INTO "events" VALUES(1,20,1794935824709,'run_01M7N867XKBXN0N7PZF0Q73PNR','phase','{"name":"tool_execution","durationMs":371.0}');
INSERT INTO "events" VALUES(1,21,1794935824709,'run_01M7N867XKBXN0N7PZF0Q73PNR','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935824709,'run_01M7N867XKBXN0N7PZF0Q73PNR','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935824709,'run_01M7N867XKBXN0N7PZF0Q73PNR','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4612}');
INSERT INTO "events" VALUES(1,24,1794935824720,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935824720,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935824720,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_message','{"messageId":"asst_01M7N867XKBXN0N7PZF0Q73PNR.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935824720,'run_01M7N867XKBXN0N7PZF0Q73PNR','assistant_done','{"messageId":"asst_01M7N867XKBXN0N7PZF0Q73PNR.2"}');
INSERT INTO "events" VALUES(1,28,1794935824720,'run_01M7N867XKBXN0N7PZF0Q73PNR','usage','{"turn":2,"inputTokens":228,"outputTokens":2,"context":{"used":230,"limit":128000,"system":271,"summary":0,"memory":0,"tools":4024,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":453,"toolCalls":2,"seconds":0.412,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935824720,'run_01M7N867XKBXN0N7PZF0Q73PNR','phase','{"name":"streaming","durationMs":11.0}');
INSERT INTO "events" VALUES(1,30,1794935824721,'run_01M7N867XKBXN0N7PZF0Q73PNR','files_changed','{"checkpointId":"cp_7123f90eac11f33d22b776e6ca","files":[{"path":"made.txt","change":"added","added":1,"removed":0}],"callId":"call_0_0"}');
INSERT INTO "events" VALUES(1,31,1794935824723,'run_01M7N867XKBXN0N7PZF0Q73PNR','run_complete','{"runId":"run_01M7N867XKBXN0N7PZF0Q73PNR","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935826096,NULL,'session_started','{"sessionId":"sess_01M7N869MD0K9RS0FXPT2YWF7E","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935826103,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','user_message','{"messageId":"msg_01M7N869NJ8FE4QF3WWD15325M","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935826104,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','run_started','{"runId":"run_01M7N869NQW4P1ZGCQ5VTCYSDB","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":3}');
INSERT INTO "events" VALUES(2,4,1794935826466,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935826466,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935826466,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4676}');
INSERT INTO "events" VALUES(2,7,1794935826467,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','assistant_message','{"messageId":"asst_01M7N869NQW4P1ZGCQ5VTCYSDB.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935826467,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','assistant_done','{"messageId":"asst_01M7N869NQW4P1ZGCQ5VTCYSDB.1"}');
INSERT INTO "events" VALUES(2,9,1794935826467,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','usage','{"turn":1,"inputTokens":289,"outputTokens":10,"context":{"used":299,"limit":128000,"system":271,"summary":0,"memory":117,"tools":4024,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":299,"toolCalls":0,"seconds":0.363,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935826467,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(2,11,1794935826467,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,12,1794935826581,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935826672,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','approval_received','{"approvalId":"appr_01M7N86A777MHAX84ZVBCFS7DT","decision":"approve","by":"policy","callId":"call_0_0","digest":"5ed9ea2b174c4ed1bed0d12f919944987a365f09e9d9369779ae8b31c4d69842"}');
INSERT INTO "events" VALUES(2,14,1794935826672,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"5ed9ea2b174c4ed1bed0d12f919944987a365f09e9d9369779ae8b31c4d69842"}');
INSERT INTO "events" VALUES(2,15,1794935826708,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":13,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(2,16,1794935826709,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','phase','{"name":"tool_execution","durationMs":242.0}');
INSERT INTO "events" VALUES(2,17,1794935826709,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935826710,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935826710,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":4707}');
INSERT INTO "events" VALUES(2,20,1794935826716,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','assistant_message','{"messageId":"asst_01M7N869NQW4P1ZGCQ5VTCYSDB.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935826716,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','assistant_done','{"messageId":"asst_01M7N869NQW4P1ZGCQ5VTCYSDB.2"}');
INSERT INTO "events" VALUES(2,22,1794935826716,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','usage','{"turn":2,"inputTokens":303,"outputTokens":10,"context":{"used":313,"limit":128000,"system":271,"summary":0,"memory":117,"tools":4024,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":612,"toolCalls":1,"seconds":0.612,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935826716,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','phase','{"name":"streaming","durationMs":6.0}');
INSERT INTO "events" VALUES(2,24,1794935826716,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,25,1794935826717,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935826718,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','approval_received','{"approvalId":"appr_01M7N86A8Y34K0C3CW0HPD9VYR","decision":"approve","by":"policy","callId":"call_1_0","digest":"df1943c3e84da1dcafaee314215a91d1b44d096e2aa24109779b254e645328c3"}');
INSERT INTO "events" VALUES(2,27,1794935826718,'run_01M7N869NQW4P1ZGCQ5VTCYSDB','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"df1943c3e84da1dcafaee314215a91d1b44d096e2aa24109779b254e645328c3"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N867XEHB34JEXSS25CH8FN',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N869NJ8FE4QF3WWD15325M',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
, archived INTEGER NOT NULL DEFAULT 0, facts TEXT, user TEXT) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N867WCMKNY6DYV5ACQR11M','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed','make it',1794935824290,1794935824723,1,31,1,NULL,0,'{"archived":false,"cost_usd":null,"tokens":453,"context":{"used":230,"limit":128000},"waiting":0,"parent":null,"day":0,"day_cost_usd":0.0,"agent":null}',NULL);
INSERT INTO "sessions" VALUES(2,'sess_01M7N869MD0K9RS0FXPT2YWF7E','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running','work on it',1794935826079,1794935826718,1,27,1,'elsewhere:::1::0000000000000000',0,'{"archived":false,"cost_usd":null,"tokens":612,"context":{"used":313,"limit":128000},"waiting":0,"parent":null,"day":0,"day_cost_usd":0.0,"agent":null}',NULL);
CREATE TABLE spent (
  user TEXT NOT NULL, day INTEGER NOT NULL, cost_usd REAL NOT NULL, PRIMARY KEY (user, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
, boot TEXT, boot_ms INTEGER, minted_by TEXT, kind TEXT NOT NULL DEFAULT 'token') STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('157e7fabeab8c76a08a636db1d933410a1616a6ef8a8da9c72e2d41f175494d3',1,'driver',NULL,NULL,NULL,NULL,'token');
INSERT INTO "tokens" VALUES('429f1fe34a062daa128d78adbba717be4c2782f63134210d665d9e29ee20a0b6',2,'driver',NULL,NULL,NULL,NULL,'token');
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
CREATE INDEX sessions_of_user ON sessions (user) WHERE user IS NOT NULL;
PRAGMA user_version = 7;
COMMIT;
