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
INSERT INTO "blob_refs" VALUES('8917a8fd83ede5fe3fdf77af169e897023eda3e0c66eb2ab45be5d3f87064ca2',1);
INSERT INTO "blob_refs" VALUES('123c0ff37cbc30000deb2db7ce3caf61e02e28ea2765b1d084eca4a54dbef44e',2);
INSERT INTO "blob_refs" VALUES('f1a859e7084596c5f53e6f74cdf7b99b6bbd02cc50128f027f8de0bc128dea6a',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N862YG6VJYJ8D81QVY21DA/call_0_0',1,'8917a8fd83ede5fe3fdf77af169e897023eda3e0c66eb2ab45be5d3f87064ca2');
INSERT INTO "claims" VALUES(2,'run_01M7N863Y5RHRE5PEWK9V8TSC8/call_0_0',1,'123c0ff37cbc30000deb2db7ce3caf61e02e28ea2765b1d084eca4a54dbef44e');
INSERT INTO "claims" VALUES(2,'run_01M7N863Y5RHRE5PEWK9V8TSC8/call_1_0',1,'f1a859e7084596c5f53e6f74cdf7b99b6bbd02cc50128f027f8de0bc128dea6a');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935819203,NULL,'session_started','{"sessionId":"sess_01M7N862XA7A3BN1AJT9C755KD","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935819216,'run_01M7N862YG6VJYJ8D81QVY21DA','user_message','{"messageId":"msg_01M7N862YFB9V3743XEHD4485H","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935819217,'run_01M7N862YG6VJYJ8D81QVY21DA','run_started','{"runId":"run_01M7N862YG6VJYJ8D81QVY21DA","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":2}');
INSERT INTO "events" VALUES(1,4,1794935819232,'run_01M7N862YG6VJYJ8D81QVY21DA','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935819232,'run_01M7N862YG6VJYJ8D81QVY21DA','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935819232,'run_01M7N862YG6VJYJ8D81QVY21DA','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3895}');
INSERT INTO "events" VALUES(1,7,1794935819232,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935819233,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935819233,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_message','{"messageId":"asst_01M7N862YG6VJYJ8D81QVY21DA.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935819233,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_done','{"messageId":"asst_01M7N862YG6VJYJ8D81QVY21DA.1"}');
INSERT INTO "events" VALUES(1,11,1794935819233,'run_01M7N862YG6VJYJ8D81QVY21DA','usage','{"turn":1,"inputTokens":202,"outputTokens":19,"context":{"used":221,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":221,"toolCalls":0,"seconds":0.016,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935819233,'run_01M7N862YG6VJYJ8D81QVY21DA','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,13,1794935819233,'run_01M7N862YG6VJYJ8D81QVY21DA','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"],"tiers":{"run_shell":"privileged","read_file":"read-only"}}');
INSERT INTO "events" VALUES(1,14,1794935819299,'run_01M7N862YG6VJYJ8D81QVY21DA','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935819363,'run_01M7N862YG6VJYJ8D81QVY21DA','approval_received','{"approvalId":"appr_01M7N86330XQSX7WF5BFF2PB8C","decision":"approve","by":"policy","callId":"call_0_0","digest":"8917a8fd83ede5fe3fdf77af169e897023eda3e0c66eb2ab45be5d3f87064ca2"}');
INSERT INTO "events" VALUES(1,16,1794935819363,'run_01M7N862YG6VJYJ8D81QVY21DA','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"8917a8fd83ede5fe3fdf77af169e897023eda3e0c66eb2ab45be5d3f87064ca2"}');
INSERT INTO "events" VALUES(1,17,1794935819404,'run_01M7N862YG6VJYJ8D81QVY21DA','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":33,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(1,18,1794935819414,'run_01M7N862YG6VJYJ8D81QVY21DA','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935819415,'run_01M7N862YG6VJYJ8D81QVY21DA','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":1,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local","outcome":"returned"}');
INSERT INTO "events" VALUES(1,20,1794935819415,'run_01M7N862YG6VJYJ8D81QVY21DA','phase','{"name":"tool_execution","durationMs":182.0}');
INSERT INTO "events" VALUES(1,21,1794935819415,'run_01M7N862YG6VJYJ8D81QVY21DA','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935819415,'run_01M7N862YG6VJYJ8D81QVY21DA','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935819415,'run_01M7N862YG6VJYJ8D81QVY21DA','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3949}');
INSERT INTO "events" VALUES(1,24,1794935819418,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935819419,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935819419,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_message','{"messageId":"asst_01M7N862YG6VJYJ8D81QVY21DA.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935819419,'run_01M7N862YG6VJYJ8D81QVY21DA','assistant_done','{"messageId":"asst_01M7N862YG6VJYJ8D81QVY21DA.2"}');
INSERT INTO "events" VALUES(1,28,1794935819419,'run_01M7N862YG6VJYJ8D81QVY21DA','usage','{"turn":2,"inputTokens":226,"outputTokens":2,"context":{"used":228,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":449,"toolCalls":2,"seconds":0.202,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935819419,'run_01M7N862YG6VJYJ8D81QVY21DA','phase','{"name":"streaming","durationMs":4.0}');
INSERT INTO "events" VALUES(1,30,1794935819419,'run_01M7N862YG6VJYJ8D81QVY21DA','run_complete','{"runId":"run_01M7N862YG6VJYJ8D81QVY21DA","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935820227,NULL,'session_started','{"sessionId":"sess_01M7N863XR6YQCXZVH8ZZ5WMEF","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{},"endpoint":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935820229,'run_01M7N863Y5RHRE5PEWK9V8TSC8','user_message','{"messageId":"msg_01M7N863Y4X6DVK34633240K6S","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935820230,'run_01M7N863Y5RHRE5PEWK9V8TSC8','run_started','{"runId":"run_01M7N863Y5RHRE5PEWK9V8TSC8","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":2}');
INSERT INTO "events" VALUES(2,4,1794935820249,'run_01M7N863Y5RHRE5PEWK9V8TSC8','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935820250,'run_01M7N863Y5RHRE5PEWK9V8TSC8','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935820250,'run_01M7N863Y5RHRE5PEWK9V8TSC8','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3896}');
INSERT INTO "events" VALUES(2,7,1794935820256,'run_01M7N863Y5RHRE5PEWK9V8TSC8','assistant_message','{"messageId":"asst_01M7N863Y5RHRE5PEWK9V8TSC8.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935820256,'run_01M7N863Y5RHRE5PEWK9V8TSC8','assistant_done','{"messageId":"asst_01M7N863Y5RHRE5PEWK9V8TSC8.1"}');
INSERT INTO "events" VALUES(2,9,1794935820257,'run_01M7N863Y5RHRE5PEWK9V8TSC8','usage','{"turn":1,"inputTokens":203,"outputTokens":10,"context":{"used":213,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":213,"toolCalls":0,"seconds":0.026,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935820257,'run_01M7N863Y5RHRE5PEWK9V8TSC8','phase','{"name":"streaming","durationMs":7.0}');
INSERT INTO "events" VALUES(2,11,1794935820257,'run_01M7N863Y5RHRE5PEWK9V8TSC8','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,12,1794935820299,'run_01M7N863Y5RHRE5PEWK9V8TSC8','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935820396,'run_01M7N863Y5RHRE5PEWK9V8TSC8','approval_received','{"approvalId":"appr_01M7N8642Z5CEJWVRNDY1F0ZNH","decision":"approve","by":"policy","callId":"call_0_0","digest":"123c0ff37cbc30000deb2db7ce3caf61e02e28ea2765b1d084eca4a54dbef44e"}');
INSERT INTO "events" VALUES(2,14,1794935820396,'run_01M7N863Y5RHRE5PEWK9V8TSC8','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"123c0ff37cbc30000deb2db7ce3caf61e02e28ea2765b1d084eca4a54dbef44e"}');
INSERT INTO "events" VALUES(2,15,1794935820470,'run_01M7N863Y5RHRE5PEWK9V8TSC8','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":63,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(2,16,1794935820470,'run_01M7N863Y5RHRE5PEWK9V8TSC8','phase','{"name":"tool_execution","durationMs":213.0}');
INSERT INTO "events" VALUES(2,17,1794935820470,'run_01M7N863Y5RHRE5PEWK9V8TSC8','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935820470,'run_01M7N863Y5RHRE5PEWK9V8TSC8','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935820470,'run_01M7N863Y5RHRE5PEWK9V8TSC8','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3927}');
INSERT INTO "events" VALUES(2,20,1794935820471,'run_01M7N863Y5RHRE5PEWK9V8TSC8','assistant_message','{"messageId":"asst_01M7N863Y5RHRE5PEWK9V8TSC8.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935820471,'run_01M7N863Y5RHRE5PEWK9V8TSC8','assistant_done','{"messageId":"asst_01M7N863Y5RHRE5PEWK9V8TSC8.2"}');
INSERT INTO "events" VALUES(2,22,1794935820471,'run_01M7N863Y5RHRE5PEWK9V8TSC8','usage','{"turn":2,"inputTokens":216,"outputTokens":10,"context":{"used":226,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":439,"toolCalls":1,"seconds":0.241,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935820471,'run_01M7N863Y5RHRE5PEWK9V8TSC8','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(2,24,1794935820471,'run_01M7N863Y5RHRE5PEWK9V8TSC8','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,25,1794935820472,'run_01M7N863Y5RHRE5PEWK9V8TSC8','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935820472,'run_01M7N863Y5RHRE5PEWK9V8TSC8','approval_received','{"approvalId":"appr_01M7N8645R96EPXSYTNC6QAPA1","decision":"approve","by":"policy","callId":"call_1_0","digest":"f1a859e7084596c5f53e6f74cdf7b99b6bbd02cc50128f027f8de0bc128dea6a"}');
INSERT INTO "events" VALUES(2,27,1794935820473,'run_01M7N863Y5RHRE5PEWK9V8TSC8','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"f1a859e7084596c5f53e6f74cdf7b99b6bbd02cc50128f027f8de0bc128dea6a"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N862YFB9V3743XEHD4485H',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N863Y4X6DVK34633240K6S',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
, archived INTEGER NOT NULL DEFAULT 0, facts TEXT) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N862XA7A3BN1AJT9C755KD','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed','make it',1794935819188,1794935819419,1,30,1,NULL,0,'{"archived":false,"cost_usd":null,"tokens":449,"context":{"used":228,"limit":128000},"waiting":0,"parent":null}');
INSERT INTO "sessions" VALUES(2,'sess_01M7N863XR6YQCXZVH8ZZ5WMEF','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running','work on it',1794935820222,1794935820473,1,27,1,'elsewhere:::1::0000000000000000',0,'{"archived":false,"cost_usd":null,"tokens":439,"context":{"used":226,"limit":128000},"waiting":0,"parent":null}');
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
, boot TEXT, boot_ms INTEGER, minted_by TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('552496ace53695d9f7fb7b2661e564876967c3551de78d10b8d0d67f9227672a',1,'driver',NULL,NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('dd516aec1df41e711b9b7b16ac1effcdf95977502fb18ec38959ae84ba208ad7',2,'driver',NULL,NULL,NULL,NULL);
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
PRAGMA user_version = 5;
COMMIT;
