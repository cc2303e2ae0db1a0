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
INSERT INTO "blob_refs" VALUES('a78170b7762352d7ae7a5d99b2e89d5df39ad4aec50969d81a4a50c7b8db17b5',1);
INSERT INTO "blob_refs" VALUES('7f232676e825d854be6666d45fd954fe579a88025cac052e2a7e30aab6768f00',2);
INSERT INTO "blob_refs" VALUES('85fef47cc5fc78fa662f0abaddc7685bc7afc8e8d274b2a554e167cf73f72a13',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N85W0053291CTASASWN610/call_0_0',1,'a78170b7762352d7ae7a5d99b2e89d5df39ad4aec50969d81a4a50c7b8db17b5');
INSERT INTO "claims" VALUES(2,'run_01M7N85WTWFD74QPW35A6QRY9V/call_0_0',1,'7f232676e825d854be6666d45fd954fe579a88025cac052e2a7e30aab6768f00');
INSERT INTO "claims" VALUES(2,'run_01M7N85WTWFD74QPW35A6QRY9V/call_1_0',1,'85fef47cc5fc78fa662f0abaddc7685bc7afc8e8d274b2a554e167cf73f72a13');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935812095,NULL,'session_started','{"sessionId":"sess_01M7N85VZ2TR198NYP7YQ4G5ZV","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935812096,'run_01M7N85W0053291CTASASWN610','user_message','{"messageId":"msg_01M7N85VZZDKTNAF05C01NJMX1","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935812096,'run_01M7N85W0053291CTASASWN610','run_started','{"runId":"run_01M7N85W0053291CTASASWN610","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"}}');
INSERT INTO "events" VALUES(1,4,1794935812120,'run_01M7N85W0053291CTASASWN610','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935812120,'run_01M7N85W0053291CTASASWN610','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935812120,'run_01M7N85W0053291CTASASWN610','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3840}');
INSERT INTO "events" VALUES(1,7,1794935812121,'run_01M7N85W0053291CTASASWN610','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935812121,'run_01M7N85W0053291CTASASWN610','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935812121,'run_01M7N85W0053291CTASASWN610','assistant_message','{"messageId":"asst_01M7N85W0053291CTASASWN610.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935812121,'run_01M7N85W0053291CTASASWN610','assistant_done','{"messageId":"asst_01M7N85W0053291CTASASWN610.1"}');
INSERT INTO "events" VALUES(1,11,1794935812121,'run_01M7N85W0053291CTASASWN610','usage','{"turn":1,"inputTokens":202,"outputTokens":19,"context":{"used":221,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":221,"toolCalls":0,"seconds":0.025,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935812121,'run_01M7N85W0053291CTASASWN610','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,13,1794935812121,'run_01M7N85W0053291CTASASWN610','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"]}');
INSERT INTO "events" VALUES(1,14,1794935812185,'run_01M7N85W0053291CTASASWN610','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935812269,'run_01M7N85W0053291CTASASWN610','approval_received','{"approvalId":"appr_01M7N85W54R9SP0B74YDWE1TAD","decision":"approve","by":"policy","callId":"call_0_0","digest":"a78170b7762352d7ae7a5d99b2e89d5df39ad4aec50969d81a4a50c7b8db17b5"}');
INSERT INTO "events" VALUES(1,16,1794935812269,'run_01M7N85W0053291CTASASWN610','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"a78170b7762352d7ae7a5d99b2e89d5df39ad4aec50969d81a4a50c7b8db17b5"}');
INSERT INTO "events" VALUES(1,17,1794935812293,'run_01M7N85W0053291CTASASWN610','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":127,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0}');
INSERT INTO "events" VALUES(1,18,1794935812294,'run_01M7N85W0053291CTASASWN610','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935812294,'run_01M7N85W0053291CTASASWN610','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":1,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,20,1794935812294,'run_01M7N85W0053291CTASASWN610','phase','{"name":"tool_execution","durationMs":173.0}');
INSERT INTO "events" VALUES(1,21,1794935812294,'run_01M7N85W0053291CTASASWN610','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935812294,'run_01M7N85W0053291CTASASWN610','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935812294,'run_01M7N85W0053291CTASASWN610','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3894}');
INSERT INTO "events" VALUES(1,24,1794935812295,'run_01M7N85W0053291CTASASWN610','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935812295,'run_01M7N85W0053291CTASASWN610','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935812295,'run_01M7N85W0053291CTASASWN610','assistant_message','{"messageId":"asst_01M7N85W0053291CTASASWN610.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935812295,'run_01M7N85W0053291CTASASWN610','assistant_done','{"messageId":"asst_01M7N85W0053291CTASASWN610.2"}');
INSERT INTO "events" VALUES(1,28,1794935812295,'run_01M7N85W0053291CTASASWN610','usage','{"turn":2,"inputTokens":226,"outputTokens":2,"context":{"used":228,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":449,"toolCalls":2,"seconds":0.199,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935812295,'run_01M7N85W0053291CTASASWN610','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,30,1794935812295,'run_01M7N85W0053291CTASASWN610','run_complete','{"runId":"run_01M7N85W0053291CTASASWN610","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935812955,NULL,'session_started','{"sessionId":"sess_01M7N85WSYY6CACG54KF4JQGF7","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935812956,'run_01M7N85WTWFD74QPW35A6QRY9V','user_message','{"messageId":"msg_01M7N85WTW8HZXSN29ZPCEJVSC","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935812956,'run_01M7N85WTWFD74QPW35A6QRY9V','run_started','{"runId":"run_01M7N85WTWFD74QPW35A6QRY9V","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"}}');
INSERT INTO "events" VALUES(2,4,1794935812963,'run_01M7N85WTWFD74QPW35A6QRY9V','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935812963,'run_01M7N85WTWFD74QPW35A6QRY9V','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935812963,'run_01M7N85WTWFD74QPW35A6QRY9V','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3841}');
INSERT INTO "events" VALUES(2,7,1794935812964,'run_01M7N85WTWFD74QPW35A6QRY9V','assistant_message','{"messageId":"asst_01M7N85WTWFD74QPW35A6QRY9V.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935812964,'run_01M7N85WTWFD74QPW35A6QRY9V','assistant_done','{"messageId":"asst_01M7N85WTWFD74QPW35A6QRY9V.1"}');
INSERT INTO "events" VALUES(2,9,1794935812964,'run_01M7N85WTWFD74QPW35A6QRY9V','usage','{"turn":1,"inputTokens":203,"outputTokens":10,"context":{"used":213,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":213,"toolCalls":0,"seconds":0.008,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935812964,'run_01M7N85WTWFD74QPW35A6QRY9V','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(2,11,1794935812964,'run_01M7N85WTWFD74QPW35A6QRY9V','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"]}');
INSERT INTO "events" VALUES(2,12,1794935813013,'run_01M7N85WTWFD74QPW35A6QRY9V','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935813043,'run_01M7N85WTWFD74QPW35A6QRY9V','approval_received','{"approvalId":"appr_01M7N85WXB8H92MSW0V3PF3P1A","decision":"approve","by":"policy","callId":"call_0_0","digest":"7f232676e825d854be6666d45fd954fe579a88025cac052e2a7e30aab6768f00"}');
INSERT INTO "events" VALUES(2,14,1794935813043,'run_01M7N85WTWFD74QPW35A6QRY9V','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"7f232676e825d854be6666d45fd954fe579a88025cac052e2a7e30aab6768f00"}');
INSERT INTO "events" VALUES(2,15,1794935813054,'run_01M7N85WTWFD74QPW35A6QRY9V','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":61,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0}');
INSERT INTO "events" VALUES(2,16,1794935813054,'run_01M7N85WTWFD74QPW35A6QRY9V','phase','{"name":"tool_execution","durationMs":90.0}');
INSERT INTO "events" VALUES(2,17,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3872}');
INSERT INTO "events" VALUES(2,20,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','assistant_message','{"messageId":"asst_01M7N85WTWFD74QPW35A6QRY9V.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','assistant_done','{"messageId":"asst_01M7N85WTWFD74QPW35A6QRY9V.2"}');
INSERT INTO "events" VALUES(2,22,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','usage','{"turn":2,"inputTokens":216,"outputTokens":10,"context":{"used":226,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3309,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":439,"toolCalls":1,"seconds":0.099,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','phase','{"name":"streaming","durationMs":0.0}');
INSERT INTO "events" VALUES(2,24,1794935813055,'run_01M7N85WTWFD74QPW35A6QRY9V','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"]}');
INSERT INTO "events" VALUES(2,25,1794935813056,'run_01M7N85WTWFD74QPW35A6QRY9V','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935813056,'run_01M7N85WTWFD74QPW35A6QRY9V','approval_received','{"approvalId":"appr_01M7N85WY0CDHXP9HK2HBJR4FG","decision":"approve","by":"policy","callId":"call_1_0","digest":"85fef47cc5fc78fa662f0abaddc7685bc7afc8e8d274b2a554e167cf73f72a13"}');
INSERT INTO "events" VALUES(2,27,1794935813056,'run_01M7N85WTWFD74QPW35A6QRY9V','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"85fef47cc5fc78fa662f0abaddc7685bc7afc8e8d274b2a554e167cf73f72a13"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N85VZZDKTNAF05C01NJMX1',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N85WTW8HZXSN29ZPCEJVSC',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N85VZ2TR198NYP7YQ4G5ZV','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed',NULL,1794935812077,1794935812295,1,30,1,NULL);
INSERT INTO "sessions" VALUES(2,'sess_01M7N85WSYY6CACG54KF4JQGF7','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running',NULL,1794935812937,1794935813056,1,27,1,'elsewhere:::1::0000000000000000');
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('20f05410f6f6ab58029d2d3881b9b93cd52c8e1b08ac65c7b106d3f746332cc1',1,'driver',NULL);
INSERT INTO "tokens" VALUES('59fe536a1d444ef8966d2d32c3a177adb6714ceec1005041be6a6ab8cd13a296',2,'driver',NULL);
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type IN ('approval_received', 'approval_expired', 'approval_policy_changed');
PRAGMA user_version = 2;
COMMIT;
